-- Raised by each transaction that deletes charges or corrects rollups. Sums that were read before cannot be continued with the
-- charges that were added since.
alter table meta add column sums_version integer not null default 0;

create index charges_carried on charges (admitted_at) where route = 'carried';
