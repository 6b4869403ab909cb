-- Scopes are lists of conditions. `each-key:TEAM` is now stored as `team:TEAM each-key`.
update budgets set scope = 'team:' || substr(scope, 10) || ' each-key' where scope like 'each-key:%';
update refusals set scope = 'team:' || substr(scope, 10) || ' each-key' where scope like 'each-key:%';
update outbox set dedupe_key =
  'budget team:' || substr(dedupe_key, 17, position('/' in dedupe_key) - 17) || ' each-key' || substr(dedupe_key, position('/' in dedupe_key))
where dedupe_key like 'budget each-key:%/%';
update meta set budgets_version = budgets_version + 1;

-- The session, key or team that a budget's scope names, by which admissions find it; '' if it names none.
alter table budgets add column anchor text collate "C" not null default '';
update budgets set anchor = case
  when scope like 'key:% tag:session=%' then 'session:' || split_part(scope, ' tag:session=', 2)
  when scope like 'team:% each-key' then substr(scope, 1, length(scope) - 9)
  when scope like 'key:%' or scope like 'team:%' then scope
  else ''
end;
create index budgets_by_anchor on budgets (anchor);

-- In spans that start at this time or later, each subject with charges has its window, so that a new window starts with 0; null if
-- that is not known.
alter table budgets add column complete_from bigint;
update budgets set complete_from = case period when 'total' then 0 else coalesce(
  (select max(starts_at) from budget_windows where budget = budgets.seq), (select max(admitted_at) + 1 from charges), 0
) end;

-- Values by which budgets count a charge. `entry` is the model's name in the price files; for a pending charge of several models,
-- that of the most expensive one. `entries` has all of them as JSON until the charge is settled. `end_user` is the user that the
-- request named. `labels` are those of the key at that time, as JSON.
alter table charges add column entry text collate "C";
alter table charges add column entries text collate "C";
alter table charges add column end_user text collate "C";
alter table charges add column labels text collate "C";

-- Number of users and tag values for which each key has opened windows for the first time, on its latest day.
create table new_subjects (
  key text collate "C" primary key,
  day text collate "C" not null,
  subjects bigint not null
) with (fillfactor = 50);

create index charges_of_user on charges (end_user, admitted_at) where end_user is not null;

-- Rollups distinguish the models in the price files, which budgets by model count.
-- cspell:ignore pkey
alter table rollup_quarter add column entry text collate "C";
update rollup_quarter set entry = model;
alter table rollup_quarter alter column entry set not null, drop constraint rollup_quarter_pkey,
  add primary key (starts_at, key, team, model, entry, price_group, source, shard);
alter table rollup_day add column entry text collate "C";
update rollup_day set entry = model;
alter table rollup_day alter column entry set not null, drop constraint rollup_day_pkey,
  add primary key (day, key, team, model, entry, price_group, source, shard);

-- The subject of the window that refused; null if the scope has no `each-…`, or no budget refused.
alter table refusals add column subject text collate "C";
update refusals set subject = key where period is not null and (scope = 'each-key' or scope like 'team:% each-key');

-- The cost of the charges that retention has deleted, in the windows of budgets that count by user, tag or label. It is a part of
-- `spent`: carried sums have no such values.
alter table budget_windows add column carried bigint not null default 0;
create or replace view windows as
  select seq, budget, subject, starts_at, ends_at, (spent + leases_spent)::bigint as spent, (held + leases_held)::bigint as held, carried
  from budget_windows
  cross join lateral (
    select coalesce(sum(spent), 0) as leases_spent, coalesce(sum(held), 0) as leases_held from window_leases where win = seq
  ) leases;

-- Time since which charges state users and labels; null if all do.
alter table meta add column users_since bigint;
update meta set users_since = (extract(epoch from clock_timestamp()) * 1000)::bigint where exists (select 1 from charges);

-- Time since which a budget on users, tags or labels counts charges, because earlier ones do not state them; null for all charges.
alter table budgets add column counts_since bigint;
