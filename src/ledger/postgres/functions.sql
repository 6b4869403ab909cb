-- Functions for the statements that a running proxy sends often. Each call is one transaction and one round trip, so a proxy
-- that is stopped halfway never keeps a lock. src/core/budget.ts has the rules of budgets. The caller computes all dates.
--
-- These functions are not migrations. Each upgrade drops all functions of the ledger and runs this file, even if the schema is
-- unchanged. Change a function here, in place; change tables by migrations. schema.ts replaces ${...} with columns of charges.
--
-- All writers take locks in the same order, which prevents deadlocks:
--   the budgets' lock, the run's lock (both advisory); new subjects by key; prices by id; missing windows by budget, subject and start; charges by
--   id; windows by seq; then rollups and tasks by their keys.

-- Drops the functions of the previous release, except trigger functions, which belong to their tables.
do $$
declare
  each regprocedure;
begin
  for each in
    select oid from pg_proc
    where pronamespace = current_schema()::regnamespace and proname like 'farebox\_%' and prorettype <> 'trigger'::regtype
  loop
    execute 'drop function ' || each;
  end loop;
end
$$;
drop type if exists farebox_moves;

-- Part one: monthly partitions of charges.

-- Creates the partition for the month (in UTC) of an instant if it is missing.
create function farebox_ensure_partitions(at_ms bigint) returns void language plpgsql as $$
declare
  first timestamp := date_trunc('month', to_timestamp(at_ms / 1000.0) at time zone 'UTC');
  name text := 'charges_' || to_char(first, 'YYYY_MM');
begin
  if to_regclass(format('%I.%I', current_schema(), name)) is not null then
    return;
  end if;
  perform pg_advisory_xact_lock('budgets'::regclass::oid::integer, -1);
  if to_regclass(format('%I.%I', current_schema(), name)) is not null then
    return;
  end if;
  -- Other connections can write while a table is attached. Creating it as a partition would block them.
  execute format('create table %I (like charges including defaults including constraints)', name);
  execute format(
    'alter table charges attach partition %I for values from (%s) to (%s)',
    name, (extract(epoch from first) * 1000)::bigint, (extract(epoch from first + interval '1 month') * 1000)::bigint
  );
exception when duplicate_table then
  -- Another connection has just created it. Waiting for an advisory lock does not refresh the cached names of tables.
end
$$;

-- Part two: windows.

-- Returns the seqs of windows, given as [{budget, subject, starts_at, ends_at}], in that order; null for a missing window.
create function farebox_find_windows(asked jsonb) returns bigint[]
language plpgsql set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  return (
    select coalesce(array_agg(w.seq order by a.n), '{}')
    from rows from (jsonb_to_recordset(asked) as (budget bigint, subject text, starts_at bigint, ends_at bigint))
      with ordinality a (budget, subject, starts_at, ends_at, n)
    left join windows w on w.budget = a.budget and w.subject = a.subject collate "C" and w.starts_at = a.starts_at
  );
end
$$;

-- Returns the positions of missing windows in which charges may already count.
create function farebox_unopened_windows(asked jsonb, wins bigint[]) returns integer[] language plpgsql as $$
begin
  return array(
    select a.n
    from rows from (jsonb_to_recordset(asked) as (budget bigint, starts_at bigint)) with ordinality a (budget, starts_at, n)
    join budgets b on b.seq = a.budget
    where wins[a.n] is null and (b.complete_from is null or a.starts_at < b.complete_from)
  );
end
$$;

-- Counts the new subjects that clients state, by key and day. A subject is new if this batch needs its first window. Returns the
-- positions of the windows of subjects beyond the maximum. Stores the counts only if there are no such windows and `keeps` is true.
-- `opened`: positions of windows that exist only because this batch needs them.
create function farebox_count_subjects(asked jsonb, wins bigint[], subjects_max bigint, opened integer[], keeps boolean) returns integer[] language plpgsql as $$
declare
  keys text[];
  positions integer[];
  places bigint[];
  refused integer[];
begin
  insert into new_subjects as s (key, day, subjects)
  select f.key, max(f.day), 0 from farebox_new_subjects(asked, wins, opened) f group by f.key order by f.key collate "C"
  on conflict (key) do update set
    subjects = case when excluded.day > s.day then 0 else s.subjects end, day = greatest(s.day, excluded.day);
  if not found then
    return '{}';
  end if;
  -- Another proxy may have opened some of these windows before the rows were locked.
  select array_agg(f.key), array_agg(f.n), array_agg(f.place) into keys, positions, places from farebox_new_subjects(asked, wins, opened) f;
  refused := array(
    select f.n from unnest(keys, positions, places) f (key, n, place) join new_subjects s on s.key = f.key where s.subjects + f.place > subjects_max
  );
  if refused = '{}' and keeps then
    update new_subjects s set subjects = s.subjects + f.added
    from (select u.key, max(u.place) as added from unnest(keys, places) u (key, place) group by u.key) f where s.key = f.key;
  end if;
  return refused;
end
$$;

-- Returns the positions of missing windows whose subject is new and stated by clients, and numbers the subjects of each key.
create function farebox_new_subjects(asked jsonb, wins bigint[], opened integer[]) returns table (n integer, key text, day text, place bigint) language plpgsql as $$
begin
  return query
    select a.n::integer, a.key, a.day, dense_rank() over (partition by a.key order by a.subject collate "C")
    from rows from (jsonb_to_recordset(asked) as (budget bigint, subject text, starts_at bigint, key text, day text)) with ordinality a (budget, subject, starts_at, key, day, n)
    where (wins[a.n] is null or a.n = any(opened)) and a.key is not null
      and not exists (
        select from windows w
        where w.budget = a.budget and w.subject = a.subject collate "C" and not (a.n = any(opened) and w.starts_at = a.starts_at)
      );
end
$$;

-- Creates the missing windows, in which no charge counts yet. Returns the seqs of all windows.
create function farebox_create_windows(asked jsonb) returns bigint[] language plpgsql as $$
begin
  insert into windows (budget, subject, starts_at, ends_at, spent, held)
  select a.budget, a.subject, a.starts_at, a.ends_at, 0, 0
  from jsonb_to_recordset(asked) a (budget bigint, subject text collate "C", starts_at bigint, ends_at bigint)
  where not exists (select from windows w where w.budget = a.budget and w.subject = a.subject and w.starts_at = a.starts_at)
  order by a.budget, a.subject, a.starts_at
  on conflict do nothing;
  return farebox_find_windows(asked);
end
$$;

-- Returns true if the model conditions of the scope permit that a charge for this model counts in the window of this subject.
create function farebox_counts_model(scope text, subject text, entry text) returns boolean language sql immutable as $$
  select coalesce(bool_and(case when word = 'each-model'
    then entry = replace(replace(split_part(subject, ' ', place::integer), '%20', ' '), '%25', '%')
    else entry like replace(regexp_replace(replace(replace(substr(word, 7), '%20', ' '), '%25', '%'), '([\\%_])', '\\\1', 'g'), '*', '%')
  end), true)
  from (
    select word, row_number() over (partition by word like 'each-%' order by n) as place
    from string_to_table(scope, ' ') with ordinality words (word, n)
  ) placed
  where word = 'each-model' or word like 'model:%'
$$;

-- Part three: settlement of charges.

-- Locks charges in the order of their ids and returns them. The plan must use each partition's index on id. A plan by time would
-- read a whole new partition, because PostgreSQL does not know its size yet.
create function farebox_lock_charges(ids text[]) returns charges[] language plpgsql as $$
begin
  return (
    select coalesce(array_agg(charge), '{}')
    from (select c as charge from charges c where c.id = any(ids) order by c.id for update) locked
  );
end
$$;

-- Returns true if charges for this model count in a window.
create function farebox_answers(win bigint, entry text) returns boolean language plpgsql as $$
begin
  return (
    select farebox_counts_model(b.scope, w.subject, farebox_answers.entry) from windows w join budgets b on b.seq = w.budget where w.seq = win
  );
end
$$;

-- Settles pending charges among the locked ones as `settles` states. `orphan`: settles only if no known task belongs to the charge.
-- The formula "assumed" charges the hold in the ledger, because an extension may have been granted although the caller never
-- received the reply.
--
-- Returns the settled charges with their new values; whether any was posted; the amounts to add to their windows; and the reply
-- for each settled charge: [id, first, state, cost, overage]. A charge that is missing from the replies does not exist. The cost of
-- a charge that several models might have answered (`entries`) counts only in the windows of the model that did.
create function farebox_end_charges(
  settles jsonb, ids text[], locked charges[],
  out ended charges[], out are_posted boolean, out replies jsonb, out wins bigint[], out spent bigint[], out held bigint[]
) language plpgsql set enable_nestloop = off as $$
declare
  are_wrong boolean;
begin
  with done as (
    update charges c set
      state = g.state, ${settled columns from g},
      entry = case when c.entries::jsonb ? g.answered then g.answered else c.entry end, entries = null,
      cost = case when g.formula = 'assumed' then c.hold else g.cost end,
      list_cost = case when g.formula = 'assumed' then c.hold else g.list_cost end,
      overage = case when g.formula <> 'assumed' and g.cost > c.hold then g.cost - c.hold else 0 end,
      in_doubt = case when g.doubts is not null then coalesce(case when g.formula = 'assumed' then c.hold else g.cost end, 0) else 0 end
    from jsonb_to_recordset(settles) g (id text, orphan boolean, state text, answered text, ${settled columns with types})
    -- Charges are found by id alone. The plan must not scan all pending charges or a time range.
    where c.id = any(ids) and c.id = g.id and c.state || '' = 'pending'
      and not (coalesce(g.orphan, false) and exists (select from tasks where tasks.charge = g.id))
    returning c as charge, c.id, c.state, c.cost, c.overage, c.formula, c.hold, c.entry, c.windows
  ), sums as (
    select win, -sum(coalesce(e.hold, 0))::bigint as held, sum(
      case when e.id = any(array(select l.id from unnest(locked) l where l.entries is not null)) and not farebox_answers(win, e.entry) then 0 else coalesce(e.cost, 0) end
    )::bigint as spent
    from done e cross join lateral unnest(e.windows) win group by win
  )
  select
    coalesce(array_agg(e.charge), '{}'), coalesce(bool_or(e.state = 'posted'), false),
    coalesce(jsonb_agg(jsonb_build_array(e.id, true, e.state, e.cost::text, e.overage::text)), '[]'),
    bool_or(e.state = 'posted' and ((e.cost is null) <> (e.formula = 'unpriced') or e.cost < 0)),
    array(select s.win from sums s), array(select s.spent from sums s), array(select s.held from sums s)
  into ended, are_posted, replies, are_wrong, wins, spent, held
  from done e;
  if are_wrong then
    raise exception 'only an unpriced charge has no cost, and no cost is below zero';
  end if;
  if cardinality(ended) < jsonb_array_length(settles) then
    replies := replies || (
      select coalesce(jsonb_agg(jsonb_build_array(l.id, false, l.state, l.cost::text, l.overage::text)), '[]') from unnest(locked) l where l.state <> 'pending'
    );
  end if;
end
$$;

-- Adds posted charges to the rollups. Updates each row once, in the order of the keys. Each proxy writes to its own shard.
-- `days` contains all days of these charges: [{day, starts_at, ends_at}].
create function farebox_roll_up(days jsonb, ended charges[], own_shard bigint) returns void language plpgsql as $$
begin
  insert into rollup_quarter as r (
    starts_at, key, team, model, entry, price_group, source, shard, requests, unpriced, retries, input, cached_input, cache_write,
    cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, cost, list_cost, in_doubt
  )
  select c.admitted_at - c.admitted_at % 900000, c.key, coalesce(c.team, ''), c.model, coalesce(c.entry, c.model), coalesce(c.price_group, ''), c.source, own_shard,
    count(*), count(*) filter (where c.cost is null), count(*) filter (where c.retry > 0),
    coalesce(sum(c.input), 0), coalesce(sum(c.cached_input), 0), coalesce(sum(c.cache_write), 0),
    coalesce(sum(c.cache_write_1h), 0), coalesce(sum(c.audio_input), 0), coalesce(sum(c.image_input), 0),
    coalesce(sum(c.output), 0), coalesce(sum(c.reasoning), 0), coalesce(sum(c.audio_output), 0),
    coalesce(sum(c.image_output), 0), coalesce(sum(c.cost), 0), coalesce(sum(c.list_cost), 0), coalesce(sum(c.in_doubt), 0)
  from unnest(ended) c where c.state = 'posted'
  group by 1, 2, 3, 4, 5, 6, 7 order by 1, 2, 3, 4, 5, 6, 7
  on conflict (starts_at, key, team, model, entry, price_group, source, shard) do update set
    requests = r.requests + excluded.requests, unpriced = r.unpriced + excluded.unpriced,
    retries = r.retries + excluded.retries, input = r.input + excluded.input,
    cached_input = r.cached_input + excluded.cached_input, cache_write = r.cache_write + excluded.cache_write,
    cache_write_1h = r.cache_write_1h + excluded.cache_write_1h, audio_input = r.audio_input + excluded.audio_input,
    image_input = r.image_input + excluded.image_input, output = r.output + excluded.output,
    reasoning = r.reasoning + excluded.reasoning, audio_output = r.audio_output + excluded.audio_output,
    image_output = r.image_output + excluded.image_output, cost = r.cost + excluded.cost,
    list_cost = r.list_cost + excluded.list_cost, in_doubt = r.in_doubt + excluded.in_doubt;

  insert into rollup_day as r (
    day, key, team, model, entry, price_group, source, shard, requests, unpriced, retries, input, cached_input, cache_write,
    cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, cost, list_cost, in_doubt
  )
  select d.day, c.key, coalesce(c.team, ''), c.model, coalesce(c.entry, c.model), coalesce(c.price_group, ''), c.source, own_shard,
    count(*), count(*) filter (where c.cost is null), count(*) filter (where c.retry > 0),
    coalesce(sum(c.input), 0), coalesce(sum(c.cached_input), 0), coalesce(sum(c.cache_write), 0),
    coalesce(sum(c.cache_write_1h), 0), coalesce(sum(c.audio_input), 0), coalesce(sum(c.image_input), 0),
    coalesce(sum(c.output), 0), coalesce(sum(c.reasoning), 0), coalesce(sum(c.audio_output), 0),
    coalesce(sum(c.image_output), 0), coalesce(sum(c.cost), 0), coalesce(sum(c.list_cost), 0), coalesce(sum(c.in_doubt), 0)
  from jsonb_to_recordset(days) d (day text, starts_at bigint, ends_at bigint)
  join unnest(ended) c on c.admitted_at >= d.starts_at and c.admitted_at < d.ends_at
  where c.state = 'posted'
  group by 1, 2, 3, 4, 5, 6, 7 order by d.day collate "C", 2, 3, 4, 5, 6, 7
  on conflict (day, key, team, model, entry, price_group, source, shard) do update set
    requests = r.requests + excluded.requests, unpriced = r.unpriced + excluded.unpriced,
    retries = r.retries + excluded.retries, input = r.input + excluded.input,
    cached_input = r.cached_input + excluded.cached_input, cache_write = r.cache_write + excluded.cache_write,
    cache_write_1h = r.cache_write_1h + excluded.cache_write_1h, audio_input = r.audio_input + excluded.audio_input,
    image_input = r.image_input + excluded.image_input, output = r.output + excluded.output,
    reasoning = r.reasoning + excluded.reasoning, audio_output = r.audio_output + excluded.audio_output,
    image_output = r.image_output + excluded.image_output, cost = r.cost + excluded.cost,
    list_cost = r.list_cost + excluded.list_cost, in_doubt = r.in_doubt + excluded.in_doubt;
end
$$;

-- Binds, updates and ends tasks in the order of their ids. Returns the replies of src/ports/stores.ts in the given order.
-- The charges of bound and ended tasks are locked.
create function farebox_write_tasks(asked jsonb, locked charges[]) returns jsonb language plpgsql as $$
declare
  each record;
  reply jsonb;
  replies jsonb[] := '{}';
begin
  for each in
    select t.n, t.op, t.row, l.id is not null as is_known, l.state is not distinct from 'pending' and l.kind = 'task' as is_pending
    from rows from (jsonb_to_recordset(asked) as (op text, "row" jsonb)) with ordinality t (op, "row", n)
    left join unnest(locked) l on l.id = t.row ->> 'charge'
    order by t.row ->> 'task_id' collate "C", t.n
  loop
    reply := 'true';
    case each.op
      when 'bind' then reply := to_jsonb(farebox_bind_task(each.row, each.is_pending));
      when 'saw' then
        update tasks t set status = r.status, started_at = r.started_at, seen_at = r.seen_at, next_poll_at = r.next_poll_at, deadline_at = r.deadline_at
        from jsonb_populate_record(null::tasks, each.row) r where t.task_id = r.task_id and t.settled_at is null;
      when 'end' then
        update tasks t set status = r.status, started_at = r.started_at, ended_at = r.ended_at, settled_at = r.settled_at, seen_at = r.settled_at,
          next_poll_at = null, failure = r.failure, usage_type = r.usage_type, usage_units = r.usage_units, units_per_usd = r.units_per_usd, quantity = r.quantity
        from jsonb_populate_record(null::tasks, each.row) r where each.is_known and t.task_id = r.task_id and t.settled_at is null;
    end case;
    replies[each.n] := reply;
  end loop;
  return to_jsonb(replies);
end
$$;

-- Binds a task to a charge. Returns 'ok', 'taken' or 'no_such_charge'.
create function farebox_bind_task(asked jsonb, is_pending boolean) returns text language plpgsql as $$
declare
  pays text := (select charge from tasks where task_id = asked ->> 'task_id');
begin
  if pays is not null then
    return case when pays = asked ->> 'charge' then 'ok' else 'taken' end;
  end if;
  if is_pending is not true or exists (select from tasks where charge = asked ->> 'charge') then
    return 'no_such_charge';
  end if;
  insert into tasks (task_id, charge, key, model, task_type, status, created_at, started_at, seen_at, next_poll_at, deadline_at, quantity)
  select task_id, charge, key, model, task_type, status, created_at, started_at, created_at, next_poll_at, deadline_at, quantity
  from jsonb_populate_record(null::tasks, asked);
  return 'ok';
end
$$;

-- Part four: admission. The gap of a window is its limit minus all amounts spent and held; null for a soft budget.

-- Decides claims one by one, using arrays only. Reads and writes no table.
--
-- A claim is a hold of `amounts` (null: returns the remaining amount only) or an extension, if `at_least` is not null. An
-- extension is granted as much of its amount as the windows have room for. A hold that is already `owed` needs no room. Each
-- claim counts in the windows of its set. `weightless` claims (extensions of a hold without an amount) change no sum.
--
-- Returns for each claim: the granted amount (null: refused); the remaining amount of the tightest hard window; the remaining
-- amount of the tightest window that limits one key (`one_key`); and for a refusal, the windows without room and their gaps.
-- Then returns the held amounts to add to each window.
create function farebox_admit(
  sets integer[], amounts bigint[], at_least bigint[], weightless boolean[], owed boolean[],
  set_from integer[], set_to integer[], set_items integer[], gap bigint[], one_key boolean[],
  out granted bigint[], out rest bigint[], out key_rest bigint[], out short text[], out held bigint[]
) language plpgsql immutable as $$
declare
  amount bigint;
  p integer;
  is_short boolean;
begin
  granted := array_fill(null::bigint, array[cardinality(sets)]);
  rest := granted;
  key_rest := granted;
  short := array_fill(null::text, array[cardinality(sets)]);
  held := array_fill(0::bigint, array[cardinality(gap)]);
  for c in 1 .. cardinality(sets) loop
    amount := amounts[c];
    if sets[c] is null then
      continue;
    end if;

    -- Grants an extension as much as the tightest window has room for.
    if at_least[c] is not null then
      for i in set_from[sets[c]] .. set_to[sets[c]] loop
        amount := least(amount, case when gap[set_items[i]] is not null then greatest(gap[set_items[i]], at_least[c]) end);
      end loop;
    end if;

    is_short := amount is null;
    if not is_short and not owed[c] then
      for i in set_from[sets[c]] .. set_to[sets[c]] loop
        p := set_items[i];
        if amount > gap[p] then
          is_short := true;
          short[c] := coalesce(short[c] || ',', '') || '[' || p || ',"' || gap[p] || '"]';
        end if;
      end loop;
    end if;

    if not is_short then
      granted[c] := amount;
      if weightless[c] then
        amount := 0;
      end if;
    end if;
    for i in set_from[sets[c]] .. set_to[sets[c]] loop
      p := set_items[i];
      if not is_short then
        held[p] := held[p] + amount;
        gap[p] := gap[p] - amount;
      end if;
      if gap[p] is not null then
        rest[c] := least(rest[c], greatest(gap[p], 0));
        if one_key[p] then
          key_rest[c] := least(key_rest[c], greatest(gap[p], 0));
        end if;
      end if;
    end loop;
  end loop;
end
$$;

-- Part five: changes of windows.

-- Adds amounts to windows. A window may be named several times.
create function farebox_add_to_windows(wins bigint[], more_spent bigint[], more_held bigint[]) returns void language plpgsql as $$
begin
  update windows w set spent = w.spent + d.spent, held = w.held + d.held
  from (select win, sum(a.spent) as spent, sum(a.held) as held from unnest(wins, more_spent, more_held) a (win, spent, held) group by win) d
  where w.seq = any(wins) and w.seq = d.win and (d.spent <> 0 or d.held <> 0);
end
$$;

-- Part six: batches.

-- Inserts the admitted holds as pending charges. If fewer than `wanted` were inserted, another connection has just inserted one
-- of them. The function then raises an error that asks the caller to retry.
create function farebox_insert_holds(
  claims jsonb, run bigint, wanted integer, granted bigint[], set_from integer[], set_to integer[], set_items integer[], wins bigint[]
) returns void language plpgsql as $$
declare
  written integer;
begin
  insert into charges (id, state, owner, ${hold columns}, windows)
  select h.id, 'pending', run, ${hold columns of h}, array(select wins[set_items[i]] from generate_series(set_from[h.set], set_to[h.set]) i)
  from rows from (jsonb_to_recordset(claims) as (op text, "set" integer, id text, ${hold columns with types}))
    with ordinality h (op, "set", id, ${hold columns}, n)
  where h.op = 'hold' and granted[h.n] is not null
  order by h.n
  on conflict (id, admitted_at) do nothing;
  get diagnostics written = row_count;
  if written <> wanted then
    raise exception 'a hold of this id is being written' using errcode = 'serialization_failure';
  end if;
end
$$;

-- Applies one batch of a run: settlements first, then claims (holds and extensions) in their order, then tasks. No two commands
-- name the same charge or task. `version` is the version of the budgets that the caller used to name windows and days. If the
-- ledger has another version, or if the run has ended, nothing is written and the reply says so.
--
--   options {subjects_max}                 largest number of new subjects that clients state, per key and day
--           {opened}                       positions of the windows that the caller has opened for this batch
--           {functions}                    digest of the functions that the caller expects
--   batch   {ids}                          all charges that it names
--           {prices}                       [{id, canonical}], by id
--           {windows}                      [{budget, subject, starts_at, ends_at}] of the holds, by budget, subject and start;
--                                          with {key, day} if clients state the subject
--           {at}                           latest instant of its claims, at which raises must be in force in the window; raises only
--                                          end within a window, so it admits no claim that an earlier instant would refuse
--           {one_key}                      whether each of these windows limits a single key
--           {set_from, set_to, set_items}  the windows in which each caller counts, as positions in `windows`
--           {days}                         days of the settlements
--           {settles, claims, tasks}       see the functions above; a claim is {op: hold | extend, id, set, amount, at_least, ...}
--
-- Before version 18, PostgreSQL adds a high cost to plans with disabled nodes, and so compiles them in each call, which takes 25 ms.
create function farebox_apply(run bigint, version bigint, options jsonb, batch jsonb) returns jsonb
language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
declare
  class integer := 'budgets'::regclass::oid::integer;
  b record;
  ledger record;
  wins bigint[];
  unopened integer[];
  opened integer[] := '{}';
  refused integer[];
  locked charges[] := '{}';
  done record;
  admitted jsonb := '{"claims": []}';
begin
  select * into b from jsonb_to_record(batch) r (
    ids text[], prices jsonb, windows jsonb, at bigint, one_key boolean[], set_from integer[], set_to integer[], set_items integer[],
    days jsonb, settles jsonb, claims jsonb, tasks jsonb
  );
  perform pg_advisory_xact_lock_shared(class, 0), case when b.claims <> '[]' then pg_advisory_xact_lock_shared(class, run::integer) end;
  select
    (select m.functions from farebox_migrations m order by m.version desc limit 1) as functions,
    (select budgets_version from meta) as version,
    exists (select from owners where epoch = run and ended_at is null) as is_live
  into ledger;
  -- After an upgrade, these functions would misread the batch of another release.
  if options ->> 'functions' is distinct from ledger.functions then
    raise exception 'another release of Farebox has upgraded the ledger; restart this process with that release' using errcode = 'FB001';
  end if;
  if ledger.version <> version then
    return '{"refused": "stale"}';
  end if;
  if b.claims <> '[]' and not ledger.is_live then
    return '{"refused": "fenced"}';
  end if;
  wins := farebox_find_windows(b.windows);
  if options ? 'opened' then
    opened := array(select n::integer from jsonb_array_elements_text(options -> 'opened') n);
  end if;
  if array_position(wins, null) is not null or opened <> '{}' then
    unopened := farebox_unopened_windows(b.windows, wins);
    refused := farebox_count_subjects(b.windows, wins, (options ->> 'subjects_max')::bigint, opened, unopened = '{}');
    if refused <> '{}' then
      return jsonb_build_object('refused', 'subjects', 'windows', refused);
    end if;
    if unopened <> '{}' then
      return jsonb_build_object('refused', 'unopened', 'windows', unopened);
    end if;
  end if;
  if b.prices <> '[]' then
    insert into price_versions (id, canonical)
    select p.id, p.canonical from jsonb_to_recordset(b.prices) p (id text, canonical text) order by p.id collate "C"
    on conflict do nothing;
  end if;

  if array_position(wins, null) is not null then
    wins := farebox_create_windows(b.windows);
  end if;
  if b.ids <> '{}' then
    locked := farebox_lock_charges(b.ids);
  end if;

  if b.settles <> '[]' then
    select * into done from farebox_end_charges(b.settles, b.ids, locked);
  else
    select array[]::charges[] as ended, false as are_posted, '[]'::jsonb as replies, array[]::bigint[] as wins, array[]::bigint[] as spent, array[]::bigint[] as held into done;
  end if;
  if b.claims <> '[]' then
    admitted := farebox_claim(run, b.at, b.claims, b.one_key, b.set_from, b.set_to, b.set_items, wins, locked, done.wins, done.spent, done.held);
  elsif done.wins <> '{}' then
    perform from windows where seq = any(done.wins) order by seq for update;
    perform farebox_add_to_windows(done.wins, done.spent, done.held);
  end if;
  if done.are_posted then
    perform farebox_roll_up(b.days, done.ended, coalesce(run, 0) % 8);
  end if;
  return admitted || jsonb_build_object(
    'settles', done.replies,
    'tasks', case when b.tasks = '[]' then '[]' else farebox_write_tasks(b.tasks, locked) end
  );
end
$$;

-- Decides and writes a batch's claims, together with the changes of windows that its settlements cause (`m_wins`, `m_spent`,
-- `m_held`).
create function farebox_claim(
  run bigint, at_ms bigint, claims jsonb, one_key boolean[], set_from integer[], set_to integer[], set_items integer[], wins bigint[], locked charges[],
  m_wins bigint[], m_spent bigint[], m_held bigint[]
) returns jsonb language plpgsql as $$
declare
  asked record;
  figures record;
  a record;
  holds integer := 0;
  extensions integer := 0;
begin
  select array_agg(c.set order by c.n) as sets, array_agg(case when l.id is null or c.op = 'extend' then c.amount end order by c.n) as amounts,
    array_agg(c.at_least order by c.n) as at_least, array_agg(l.id is not null order by c.n) as known,
    array_agg(c.op = 'extend' and l.hold is null order by c.n) as weightless, array_agg(c.owed is true order by c.n) as owed,
    bool_or(c.op = 'extend') as has_extensions
  into asked
  from rows from (jsonb_to_recordset(claims) as (op text, id text, "set" integer, amount bigint, at_least bigint, owed boolean)) with ordinality c (op, id, "set", amount, at_least, owed, n)
  left join unnest(locked) l on l.id = c.id;
  if asked.has_extensions then
    select e.* into asked.sets, set_from, set_to, set_items, wins from farebox_extension_sets(claims, locked, asked.sets, set_from, set_to, set_items, wins) e;
  end if;

  select * into figures from farebox_figures(at_ms, wins, m_wins, m_spent, m_held);
  select * into a from farebox_admit(
    asked.sets, asked.amounts, asked.at_least, asked.weightless, asked.owed, set_from, set_to, set_items, figures.gap, one_key
  );
  perform farebox_add_to_windows(m_wins || wins, m_spent || array_fill(0::bigint, array[cardinality(wins)]), m_held || a.held);
  for n in 1 .. cardinality(a.granted) loop
    if asked.at_least[n] is not null then
      extensions := extensions + 1;
    elsif a.granted[n] is not null then
      holds := holds + 1;
    end if;
  end loop;
  if holds > 0 then
    perform farebox_insert_holds(claims, run, holds, a.granted, set_from, set_to, set_items, wins);
  end if;
  if extensions > 0 then
    perform farebox_enlarge_holds(claims, a.granted);
  end if;
  return farebox_claim_replies(at_ms, asked.at_least, wins, asked.sets, asked.known, figures.spent, a.granted, a.rest, a.key_rest, a.short);
end
$$;

-- Adds the set of windows of each extension of a pending charge.
create function farebox_extension_sets(
  claims jsonb, locked charges[], inout sets integer[], inout set_from integer[], inout set_to integer[], inout set_items integer[], inout wins bigint[]
) language plpgsql as $$
declare
  each record;
  win bigint;
begin
  for each in
    select c.n, l.windows
    from rows from (jsonb_to_recordset(claims) as (op text, id text)) with ordinality c (op, id, n) join unnest(locked) l on l.id = c.id
    where c.op = 'extend' and l.state = 'pending' order by c.n
  loop
    set_from := set_from || cardinality(set_items) + 1;
    foreach win in array each.windows loop
      if array_position(wins, win) is null then
        wins := wins || win;
      end if;
      set_items := set_items || array_position(wins, win);
    end loop;
    set_to := set_to || cardinality(set_items);
    sets[each.n] := cardinality(set_to);
  end loop;
end
$$;

-- Returns the raises that are in force in a window at an instant, or at the nearest instant inside the window. An extension counts
-- in the windows of its hold's admission, which may have ended. Sorts the raises by seq.
create function farebox_raises(win windows, at_ms bigint) returns setof raises language sql stable as $$
  select r.* from raises r, greatest(win.starts_at, least(at_ms, win.ends_at - 1)) inside
  where r.budget = win.budget and r.subject = win.subject collate "C" and r.starts_at <= inside and (r.until is null or r.until > inside)
  order by r.seq
$$;

-- Locks the windows in `wins` and `m_wins`. Returns for each window in `wins`, after the changes of the settlements: its gap, and the
-- total amount spent.
create function farebox_figures(at_ms bigint, wins bigint[], m_wins bigint[], m_spent bigint[], m_held bigint[], out gap bigint[], out spent bigint[])
language plpgsql as $$
begin
  -- The outer joins keep all rows of `locked`, so that every window is locked in order, even if `wins` is empty.
  with locked as materialized (
    select w, w.seq, w.budget from windows w where w.seq = any(m_wins || wins) order by w.seq for update
  )
  select
    coalesce(array_agg(case when b.mode = 'hard' then
      b.amount_limit + case when b.is_raised = 0 then 0 else (select coalesce(sum(r.amount), 0)::bigint from farebox_raises(l.w, at_ms) r) end
      - all_spent - (l.w).held - coalesce(m_held[k], 0) end order by x.p) filter (where x.p is not null), '{}'),
    coalesce(array_agg(all_spent order by x.p) filter (where x.p is not null), '{}')
  into gap, spent
  from locked l
  left join unnest(wins) with ordinality x (win, p) on x.win = l.seq
  left join budgets b on b.seq = l.budget
  cross join lateral array_position(m_wins, l.seq) k
  cross join lateral (select (l.w).spent + coalesce(m_spent[k], 0) as all_spent) whole;
end
$$;

-- Adds granted extensions to the holds of their charges.
create function farebox_enlarge_holds(claims jsonb, granted bigint[]) returns void
language plpgsql set enable_nestloop = off as $$
begin
  update charges c set hold = c.hold + granted[e.n]
  from rows from (jsonb_to_recordset(claims) as (op text, id text)) with ordinality e (op, id, n)
  where c.id = any(array(select x.id from jsonb_to_recordset(claims) x (op text, id text) where x.op = 'extend'))
    and c.id = e.id and granted[e.n] > 0 and c.state || '' = 'pending';
end
$$;

-- Returns the reply to each claim: [ok, room, key room], [granted, amount], [not_pending], [looked, room, key room, known],
-- or [short, [[window, gap], ...]]. For short claims, `windows` contains [budget, subject, starts_at, ends_at, spent,
-- [[amount, starts_at, until] of each raise]] of each window.
create function farebox_claim_replies(
  at_ms bigint, at_least bigint[], wins bigint[], sets integer[], known boolean[], all_spent bigint[], granted bigint[], rest bigint[], key_rest bigint[], short text[]
) returns jsonb language plpgsql as $$
declare
  replies jsonb[] := '{}';
  shown jsonb := '[]';
begin
  for c in 1 .. cardinality(sets) loop
    replies[c] := case
      when at_least[c] is not null and granted[c] is not null then jsonb_build_array('granted', granted[c]::text)
      when at_least[c] is not null and sets[c] is null then jsonb_build_array('not_pending')
      when granted[c] is not null then jsonb_build_array('ok', rest[c]::text, key_rest[c]::text)
      when short[c] is not null then jsonb_build_array('short', ('[' || short[c] || ']')::jsonb)
      else jsonb_build_array('looked', rest[c]::text, key_rest[c]::text, known[c])
    end;
  end loop;
  if array_remove(short, null) <> '{}' then
    select jsonb_agg(jsonb_build_array(w.budget, w.subject, w.starts_at, w.ends_at, all_spent[x.p]::text, (
      select coalesce(jsonb_agg(jsonb_build_array(r.amount::text, r.starts_at, r.until) order by r.seq), '[]') from farebox_raises(w, at_ms) r
    )) order by x.p) into shown
    from unnest(wins) with ordinality x (win, p) join windows w on w.seq = x.win;
  end if;
  return jsonb_build_object('claims', to_jsonb(replies), 'windows', shown);
end
$$;

-- Part seven: runs of proxies.

-- Records a run's heartbeat. Publishes the run's catalogue and usage, and returns those of its peers, the number of live proxies,
-- and the counter of changes. `is_live` is false if a peer has ended the run; it then needs a new epoch.
create function farebox_beat(
  run bigint, told_catalogue text, told_uses text, out is_live boolean, out changes bigint, out live integer, out peers jsonb
) language plpgsql as $$
begin
  update owners o set beat_at = clock_timestamp(), catalogue = told_catalogue, uses = told_uses where o.epoch = run and o.ended_at is null;
  is_live := found;
  select m.changes into changes from meta m;
  select count(*), coalesce(jsonb_agg(jsonb_build_object('epoch', o.epoch, 'instance', o.instance, 'catalogue', o.catalogue, 'uses', o.uses) order by o.epoch)
    filter (where o.epoch <> run), '[]')
  into live, peers
  from owners o where ${live proxy};
end
$$;

-- Ends a run, so that it can place no more holds. Waits until its current batch is applied.
create function farebox_end_owner(run bigint) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock('budgets'::regclass::oid::integer, run::integer);
  update owners set ended_at = clock_timestamp() where epoch = run and ended_at is null;
end
$$;

-- Ends runs that have been silent for longer than the longest life of a request. Returns their number.
create function farebox_end_dead_owners(own_epoch bigint) returns integer language plpgsql as $$
declare
  run bigint;
  ended integer := 0;
begin
  for run in
    select epoch from owners
    where ended_at is null and epoch is distinct from own_epoch and beat_at < clock_timestamp() - life_ms * interval '1 millisecond' order by epoch
  loop
    perform pg_advisory_xact_lock('budgets'::regclass::oid::integer, run::integer);
    update owners set ended_at = clock_timestamp()
    where epoch = run and ended_at is null and beat_at < clock_timestamp() - life_ms * interval '1 millisecond';
    if found then
      ended := ended + 1;
    end if;
  end loop;
  return ended;
end
$$;
