-- Scopes are lists of conditions. `each-key:TEAM` is now stored as `team:TEAM each-key`.
update budgets set scope = 'team:' || substr(scope, 10) || ' each-key' where scope like 'each-key:%';
update refusals set scope = 'team:' || substr(scope, 10) || ' each-key' where scope like 'each-key:%';
update outbox set dedupe_key =
  'budget team:' || substr(dedupe_key, 17, instr(dedupe_key, '/') - 17) || ' each-key' || substr(dedupe_key, instr(dedupe_key, '/'))
where dedupe_key like 'budget each-key:%/%';

-- The session, key or team that a budget's scope names, by which admissions find it; '' if it names none.
alter table budgets add column anchor text not null default '';
update budgets set anchor = case
  when scope like 'key:% tag:session=%' then 'session:' || substr(scope, instr(scope, ' tag:session=') + 13)
  when scope like 'team:% each-key' then substr(scope, 1, length(scope) - 9)
  when scope like 'key:%' or scope like 'team:%' then scope
  else ''
end;
create index budgets_by_anchor on budgets (anchor);

-- In spans that start at this time or later, each subject with charges has its window, so that a new window starts with 0; null if
-- that is not known.
alter table budgets add column complete_from integer;
update budgets set complete_from = case period when 'total' then 0 else coalesce(
  (select max(starts_at) from windows where budget = budgets.seq), (select max(admitted_at) + 1 from charges), 0
) end;

-- Values by which budgets count a charge. `entry` is the model's name in the price files; for a pending charge of several models,
-- that of the most expensive one. `entries` has all of them as JSON until the charge is settled. `end_user` is the user that the
-- request named. `labels` are those of the key at that time, as JSON.
alter table charges add column entry text;
alter table charges add column entries text;
alter table charges add column end_user text;
alter table charges add column labels text;

-- Number of users and tag values for which each key has opened windows for the first time, on its latest day.
create table new_subjects (
  key text primary key,
  day text not null,
  subjects integer not null
) strict, without rowid;

-- Rollups distinguish the models in the price files, which budgets by model count.
create table rollup_quarter_by_entry (
  starts_at integer not null,
  key text not null,
  team text not null,
  model text not null,
  entry text not null,
  price_group text not null,
  source text not null,
  requests integer not null,
  unpriced integer not null,
  retries integer not null,
  input integer not null,
  cached_input integer not null,
  cache_write integer not null,
  cache_write_1h integer not null,
  audio_input integer not null,
  image_input integer not null,
  output integer not null,
  reasoning integer not null,
  audio_output integer not null,
  image_output integer not null,
  cost integer not null check (cost > -9223372036854775807),
  list_cost integer not null,
  in_doubt integer not null,
  primary key (starts_at, key, team, model, entry, price_group, source)
) strict, without rowid;
insert into rollup_quarter_by_entry select starts_at, key, team, model, model, price_group, source,
  requests, unpriced, retries, input, cached_input, cache_write, cache_write_1h, audio_input, image_input, output, reasoning,
  audio_output, image_output, cost, list_cost, in_doubt
from rollup_quarter;
drop table rollup_quarter;
alter table rollup_quarter_by_entry rename to rollup_quarter;
create table rollup_day_by_entry (
  day text not null,
  key text not null,
  team text not null,
  model text not null,
  entry text not null,
  price_group text not null,
  source text not null,
  requests integer not null,
  unpriced integer not null,
  retries integer not null,
  input integer not null,
  cached_input integer not null,
  cache_write integer not null,
  cache_write_1h integer not null,
  audio_input integer not null,
  image_input integer not null,
  output integer not null,
  reasoning integer not null,
  audio_output integer not null,
  image_output integer not null,
  cost integer not null check (cost > -9223372036854775807),
  list_cost integer not null,
  in_doubt integer not null,
  primary key (day, key, team, model, entry, price_group, source)
) strict, without rowid;
insert into rollup_day_by_entry select day, key, team, model, model, price_group, source,
  requests, unpriced, retries, input, cached_input, cache_write, cache_write_1h, audio_input, image_input, output, reasoning,
  audio_output, image_output, cost, list_cost, in_doubt
from rollup_day;
drop table rollup_day;
alter table rollup_day_by_entry rename to rollup_day;

-- The subject of the window that refused; null if the scope has no `each-…`, or no budget refused.
alter table refusals add column subject text;
update refusals set subject = key where period is not null and (scope = 'each-key' or scope like 'team:% each-key');

-- The cost of the charges that retention has deleted, in the windows of budgets that count by user, tag or label. It is a part of
-- `spent`: carried sums have no such values.
alter table windows add column carried integer not null default 0;

-- Time since which charges state users and labels; null if all do.
alter table meta add column users_since integer;
update meta set users_since = unixepoch() * 1000 where exists (select 1 from charges);

-- Time since which a budget on users, tags or labels counts charges, because earlier ones do not state them; null for all charges.
alter table budgets add column counts_since integer;
