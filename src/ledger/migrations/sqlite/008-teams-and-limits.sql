-- Limits are whole numbers from 1 to 1,000,000,000; null for none.
alter table keys add column rpm integer;
alter table keys add column tpm integer;
alter table keys add column parallel integer;
-- When the present secret was made; null for the first one.
alter table keys add column rotated_at integer;
-- The secret before the last rotation, and the instant from which it no longer opens.
alter table keys add column previous_digest text;
alter table keys add column previous_valid_until integer;

create table teams (
  seq integer primary key,
  name text not null unique,
  models text,
  rpm integer,
  tpm integer,
  parallel integer,
  created_at integer not null
) strict;

-- Until now a team was only a word on its keys.
insert into teams (name, created_at)
select team, min(created_at) from keys where team is not null group by team order by min(seq);
