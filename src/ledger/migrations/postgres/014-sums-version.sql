-- Raised by each transaction that deletes charges or corrects rollups. Sums that were read before cannot be continued with the
-- charges that were added since.
alter table meta add column sums_version bigint not null default 0;
