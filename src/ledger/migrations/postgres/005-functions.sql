-- The digest of the functions that are there (src/ledger/postgres/functions.sql); on the newest row only.
alter table farebox_migrations add column functions text;

-- Missing in ledgers that were made before it was in 001.
create index if not exists charges_carried on charges (admitted_at) where route = 'carried';
