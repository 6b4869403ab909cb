-- Retention: what `db prune` leaves behind of the charges that it deletes.

-- Before this instant (the beginning of a day) only the rollup by days is kept.
alter table meta add column quarters_from integer not null default 0;

-- A carried sum is an adjustment at noon of its day that has the money and the tokens of the charges deleted there, one
-- for each key, team, model, group and source: so windows, rollups and lists count it like any other charge. What an
-- adjustment cannot say stands here: how many requests it is made of, and how many of them had no price or were retries.
create table carried (
  charge integer primary key references charges (seq),
  requests integer not null,
  unpriced integer not null,
  retries integer not null
) strict;

create index charges_adjusting on charges (adjusts) where adjusts is not null;
