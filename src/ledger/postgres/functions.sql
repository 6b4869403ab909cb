-- Functions for the statements that a running proxy sends often. Each call is one transaction and one round trip, so a proxy
-- that is stopped halfway never keeps a lock. src/core/budget.ts has the rules of budgets. The caller computes all dates.
--
-- These functions are not migrations. Each upgrade drops all functions of the ledger and runs this file, even if the schema is
-- unchanged. Change a function here, in place; change tables by migrations. schema.ts replaces ${...} with columns of charges.
--
-- All writers take locks in the same order, which prevents deadlocks:
--   the budgets' lock, the run's lock (both advisory); new subjects by key; prices by id; missing windows by budget, subject and start; charges by
--   id; leases by window and owner; windows by seq; then rollups and tasks by their keys.

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
    left join budget_windows w on w.budget = a.budget and w.subject = a.subject collate "C" and w.starts_at = a.starts_at
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
        select from budget_windows w
        where w.budget = a.budget and w.subject = a.subject collate "C" and not (a.n = any(opened) and w.starts_at = a.starts_at)
      );
end
$$;

-- Creates the missing windows, in which no charge counts yet. Returns the seqs of all windows.
create function farebox_create_windows(asked jsonb) returns bigint[] language plpgsql as $$
begin
  insert into budget_windows (budget, subject, starts_at, ends_at, spent, held)
  select a.budget, a.subject, a.starts_at, a.ends_at, 0, 0
  from jsonb_to_recordset(asked) a (budget bigint, subject text collate "C", starts_at bigint, ends_at bigint)
  where not exists (select from budget_windows w where w.budget = a.budget and w.subject = a.subject and w.starts_at = a.starts_at)
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

-- Settles pending charges among the locked ones as `settles` states, and returns them with their new values. `orphan`: settle
-- only if no known task belongs to the charge. The formula "assumed" charges the hold in the ledger, because an extension may
-- have been granted although the caller never received the reply.
create function farebox_end_charges(settles jsonb, ids text[]) returns charges[]
language plpgsql set enable_nestloop = off as $$
declare
  ended charges[];
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
    returning c as charge
  )
  select coalesce(array_agg(charge), '{}') into ended from done;
  if exists (select from unnest(ended) e where e.state = 'posted' and ((e.cost is null) <> (e.formula = 'unpriced') or e.cost < 0)) then
    raise exception 'only an unpriced charge has no cost, and no cost is below zero';
  end if;
  return ended;
end
$$;

-- Returns the replies for settled charges: [id, first, state, cost, overage]. A charge that is missing from the replies does not
-- exist.
create function farebox_settle_replies(locked charges[], ended charges[]) returns jsonb language plpgsql as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_array(c.id, c.first, c.state, c.cost::text, c.overage::text)), '[]')
    from (
      select e.id, true as first, e.state, e.cost, e.overage from unnest(ended) e
      union all
      select l.id, false, l.state, l.cost, l.overage from unnest(locked) l where l.state <> 'pending'
    ) c
  );
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

-- Binds, updates and ends tasks in the order of their ids. Returns the replies of src/ports/task-store.ts in the given order.
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

-- Part four: admission. Two numbers describe the remaining amount of a window: `room` can be granted from its own row, and
-- `gap` is its limit minus all amounts spent and held, including those in leases. A slot is a lease of one window. Its `idle`
-- part is granted but neither spent nor held; it is null for a soft budget, which has no limit to lease from.

-- Returns the slice that a lease takes from a window when it needs more: a quarter of each proxy's equal part of the room. Returns
-- 0 if the slice is smaller than eight holds of this amount. So slices shrink as the budget approaches its limit.
create function farebox_slice(room bigint, sharers integer, amount bigint) returns bigint language sql immutable as $$
  select case when room / (4 * sharers) >= 8 * amount::numeric then room / (4 * sharers) else 0 end
$$;

-- Decides claims one by one, using arrays only. Reads and writes no table.
--
-- A claim is a hold of `amounts` (null: returns the remaining amount only) or an extension, if `at_least` is not null. An
-- extension is granted as much of its amount as the windows have room for. A hold that is already `owed` needs no room: it is
-- granted in a lease that has room for it, and otherwise in the windows' rows, by the call that collects the leases. Each
-- claim counts in the items of its set. An item is a window and a slot; slot 0 means no lease. `weightless` claims
-- (extensions of a hold without an amount) change no sum.
-- `by_lease`: holds may use slots, and slots may take slices.
--
-- Returns for each claim: the granted amount (null: refused); the remaining amount of the tightest hard window; the remaining
-- amount of the tightest window that limits one key (`one_key`); the windows whose slots contain the hold; for a refusal, the
-- windows without room and their gaps; and `again`: true if other leases have idle amounts. Then returns the changes by window,
-- and by slot for the used slots.
create function farebox_admit(
  by_lease boolean, sharers integer, sets integer[], amounts bigint[], at_least bigint[], weightless boolean[], owed boolean[],
  set_from integer[], set_to integer[], item_window integer[], item_slot integer[],
  wins bigint[], hard boolean[], gap bigint[], room bigint[], elsewhere bigint[], locked boolean[],
  idle bigint[], slot_spent bigint[], one_key boolean[],
  out granted bigint[], out rest bigint[], out key_rest bigint[], out leased text[], out short text[], out again boolean[],
  out w_spent bigint[], out w_held bigint[], out w_leased bigint[], out used integer[], out s_granted bigint[], out s_held bigint[], out s_spent bigint[]
) language plpgsql as $$
declare
  amount bigint;
  slack bigint;
  p integer;
  s integer;
  -- Where each item of the current claim goes: 'lease'; 'slice' (a lease that first takes a slice); 'top' (a lease that takes only
  -- the missing amount); 'row' (the window's own row).
  ways text[] := '{}';
  slice bigint;
  is_short boolean;
begin
  granted := array_fill(null::bigint, array[cardinality(sets)]);
  rest := granted;
  key_rest := granted;
  leased := array_fill(null::text, array[cardinality(sets)]);
  short := leased;
  again := array_fill(false, array[cardinality(sets)]);
  w_spent := array_fill(0::bigint, array[cardinality(wins)]);
  w_held := w_spent;
  w_leased := w_spent;
  s_granted := array_fill(0::bigint, array[cardinality(idle)]);
  s_held := s_granted;
  s_spent := s_granted;
  used := '{}';
  for c in 1 .. cardinality(sets) loop
    amount := amounts[c];
    if sets[c] is null then
      continue;
    end if;

    -- Grants an extension as much as the tightest window has room for.
    if at_least[c] is not null then
      for i in set_from[sets[c]] .. set_to[sets[c]] loop
        p := item_window[i];
        if hard[p] then
          s := item_slot[i];
          slack := case when s = 0 then room[p] else least(gap[p], idle[s] + case when locked[p] then greatest(room[p], 0) else 0 end) end;
          amount := least(amount, greatest(slack, at_least[c]));
        end if;
      end loop;
    end if;

    is_short := amount is null;
    for i in set_from[sets[c]] .. set_to[sets[c]] loop
      p := item_window[i];
      s := item_slot[i];
      if is_short and amount is null then
        exit;
      elsif s = 0 then
        ways[i] := case when not hard[p] or amount <= room[p] or owed[c] then 'row' end;
      elsif not hard[p] then
        ways[i] := 'lease';
      elsif amount <= idle[s] and amount <= gap[p] then
        ways[i] := 'lease';
      elsif not locked[p] then
        ways[i] := null;
      elsif at_least[c] is null and by_lease and farebox_slice(room[p], sharers, amount) > 0 then
        ways[i] := 'slice';
      elsif at_least[c] is null and amount <= room[p] then
        ways[i] := 'row';
      elsif amount <= greatest(room[p], 0) + idle[s] and amount <= gap[p] then
        ways[i] := 'top';
      else
        ways[i] := null;
      end if;
      if ways[i] is null then
        is_short := true;
        short[c] := coalesce(short[c] || ',', '') || '[' || p || ',"' || gap[p] || '"]';
        again[c] := again[c] or owed[c] or not locked[p] or elsewhere[p] > 0 or (s > 0 and idle[s] > 0);
      end if;
    end loop;

    if not is_short then
      granted[c] := amount;
      if weightless[c] then
        amount := 0;
      end if;
    end if;
    for i in set_from[sets[c]] .. set_to[sets[c]] loop
      p := item_window[i];
      s := item_slot[i];
      if not is_short then
        if ways[i] = 'row' then
          w_held[p] := w_held[p] + amount;
          room[p] := room[p] - amount;
        else
          if ways[i] = 'slice' then
            slice := farebox_slice(room[p], sharers, amount);
            -- Moves the slot's spent amount to the window's row.
            w_spent[p] := w_spent[p] + slot_spent[s];
            w_leased[p] := w_leased[p] - slot_spent[s];
            s_spent[s] := s_spent[s] - slot_spent[s];
            s_granted[s] := s_granted[s] - slot_spent[s];
            slot_spent[s] := 0;
          elsif ways[i] = 'top' then
            slice := greatest(amount - idle[s], 0);
          else
            slice := 0;
          end if;
          if slice > 0 then
            w_leased[p] := w_leased[p] + slice;
            room[p] := room[p] - slice;
            s_granted[s] := s_granted[s] + slice;
          end if;
          idle[s] := idle[s] + slice - amount;
          s_held[s] := s_held[s] + amount;
          if not s = any(used) then
            used := used || s;
          end if;
          leased[c] := coalesce(leased[c] || ',', '') || wins[p];
        end if;
        gap[p] := gap[p] - amount;
      end if;
      if hard[p] then
        rest[c] := least(rest[c], greatest(gap[p], 0));
        if one_key[p] then
          key_rest[c] := least(key_rest[c], greatest(gap[p], 0));
        end if;
      end if;
    end loop;
  end loop;
end
$$;

-- Part five: changes of windows and leases.

-- Amounts to add to windows and leases. A lease's granted amount changes in both places: it is also part of `leased` in the
-- window's row.
create type farebox_moves as (
  wins bigint[], spent bigint[], held bigint[], leased bigint[],
  l_wins bigint[], l_owners bigint[], l_granted bigint[], l_spent bigint[], l_held bigint[]
);

create function farebox_both(a farebox_moves, b farebox_moves) returns farebox_moves language plpgsql immutable as $$
begin
  return (
    select (
      a.wins || b.wins, a.spent || b.spent, a.held || b.held, a.leased || b.leased,
      a.l_wins || b.l_wins, a.l_owners || b.l_owners, a.l_granted || b.l_granted, a.l_spent || b.l_spent, a.l_held || b.l_held
    )::farebox_moves
  );
end
$$;

-- Returns true if charges for this model count in a window.
create function farebox_answers(win bigint, entry text) returns boolean language plpgsql as $$
begin
  return (
    select farebox_counts_model(b.scope, w.subject, farebox_answers.entry) from budget_windows w join budgets b on b.seq = w.budget where w.seq = win
  );
end
$$;

-- Returns the changes that settled charges cause: in a lease if the hold is in one, otherwise in the window's row. The cost of a
-- charge in `several`, which several models might have answered, counts only in the windows of the model that did.
create function farebox_moves_of(ended charges[], several text[]) returns farebox_moves language plpgsql as $$
declare
  m farebox_moves := row('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
begin
  if ended = '{}' then
    return m;
  end if;
  select coalesce(array_agg(win), '{}'), coalesce(array_agg(spent), '{}'), coalesce(array_agg(held), '{}'), coalesce(array_agg(0), '{}')
  into m.wins, m.spent, m.held, m.leased
  from (
    select win, sum(case when e.id = any(several) and not farebox_answers(win, e.entry) then 0 else coalesce(e.cost, 0) end) as spent, -sum(coalesce(e.hold, 0)) as held
    from unnest(ended) e cross join lateral unnest(e.windows) win where not win = any(e.leased) group by win
  ) direct;
  if exists (select from unnest(ended) e where e.leased <> '{}') then
    select array_agg(win), array_agg(owner), array_agg(0), array_agg(spent), array_agg(held)
    into m.l_wins, m.l_owners, m.l_granted, m.l_spent, m.l_held
    from (
      select win, e.owner, sum(case when e.id = any(several) and not farebox_answers(win, e.entry) then 0 else coalesce(e.cost, 0) end) as spent, -sum(coalesce(e.hold, 0)) as held
      from unnest(ended) e cross join lateral unnest(e.leased) win group by win, e.owner
    ) by_lease;
  end if;
  return m;
end
$$;

-- Locks leases in order: all leases of the windows in `whole`, and the named leases of other windows.
create function farebox_lock_leases(l_wins bigint[], l_owners bigint[], whole bigint[]) returns void language plpgsql as $$
begin
  perform from window_leases l
  where l.win = any(l_wins || whole) and (l.win = any(whole) or (l.win, l.owner) in (select * from unnest(l_wins, l_owners)))
  order by l.win, l.owner for update;
end
$$;

-- Returns the grants that locked leases need for amounts posted above their holds. A window's leased amount is never less than
-- what its leases hold and have spent. A lease that was returned meanwhile, because it held nothing, is created again.
create function farebox_overage(m farebox_moves) returns farebox_moves language plpgsql as $$
begin
  return (
    select (
      coalesce(array_agg(d.win), '{}'), coalesce(array_agg(0), '{}'), coalesce(array_agg(0), '{}'), coalesce(array_agg(more), '{}'),
      coalesce(array_agg(d.win), '{}'), coalesce(array_agg(d.owner), '{}'), coalesce(array_agg(more), '{}'), coalesce(array_agg(0), '{}'), coalesce(array_agg(0), '{}')
    )::farebox_moves
    from unnest(m.l_wins, m.l_owners, m.l_spent, m.l_held) d (win, owner, spent, held)
    left join window_leases l on l.win = any(m.l_wins) and l.win = d.win and l.owner = d.owner
    cross join lateral (select case when l.win is null then d.held + d.spent else l.held + d.held + l.spent + d.spent - l.granted end as more) beyond
    where more > 0 or l.win is null
  );
end
$$;

-- Takes back the idle parts of all leases of these windows, after the changes in `m`. All leases are locked.
create function farebox_collect(wins bigint[], m farebox_moves) returns farebox_moves language plpgsql as $$
begin
  return (
    select (
      coalesce(array_agg(l.win), '{}'), coalesce(array_agg(0), '{}'), coalesce(array_agg(0), '{}'), coalesce(array_agg(-idle.part), '{}'),
      coalesce(array_agg(l.win), '{}'), coalesce(array_agg(l.owner), '{}'), coalesce(array_agg(-idle.part), '{}'), coalesce(array_agg(0), '{}'), coalesce(array_agg(0), '{}')
    )::farebox_moves
    from window_leases l
    left join (
      select win, owner, sum(granted) - sum(spent) - sum(held) as part
      from unnest(m.l_wins, m.l_owners, m.l_granted, m.l_spent, m.l_held) a (win, owner, granted, spent, held) group by win, owner
    ) d on d.win = l.win and d.owner = l.owner
    cross join lateral (select (l.granted - l.spent - l.held + coalesce(d.part, 0))::bigint as part) idle
    where l.win = any(wins) and idle.part > 0
  );
end
$$;

-- Writes changes to locked rows. Creates missing leases. A soft budget's lease has null as its grant.
create function farebox_write_moves(m farebox_moves) returns void language plpgsql as $$
begin
  update budget_windows w set spent = w.spent + d.spent, held = w.held + d.held, leased = w.leased + d.leased
  from (
    select win, sum(a.spent) as spent, sum(a.held) as held, sum(a.leased) as leased
    from unnest(m.wins, m.spent, m.held, m.leased) a (win, spent, held, leased) group by win
  ) d
  where w.seq = any(m.wins) and w.seq = d.win and (d.spent <> 0 or d.held <> 0 or d.leased <> 0);
  if m.l_wins = '{}' then
    return;
  end if;
  with d as (
    select win, owner, sum(a.granted) as granted, sum(a.spent) as spent, sum(a.held) as held
    from unnest(m.l_wins, m.l_owners, m.l_granted, m.l_spent, m.l_held) a (win, owner, granted, spent, held) group by win, owner
  ), changed as (
    update window_leases l set granted = l.granted + coalesce(d.granted, 0), spent = l.spent + d.spent, held = l.held + d.held
    from d where l.win = any(m.l_wins) and l.win = d.win and l.owner = d.owner
    returning l.win, l.owner
  )
  insert into window_leases as l (win, owner, granted, spent, held)
  select d.win, d.owner, d.granted, d.spent, d.held from d
  where not exists (select from changed where changed.win = d.win and changed.owner = d.owner)
  order by d.win, d.owner
  on conflict (win, owner) do update set granted = l.granted + excluded.granted, spent = l.spent + excluded.spent, held = l.held + excluded.held;
end
$$;

-- Writes the changes of settled charges in a batch without claims.
create function farebox_settle(m farebox_moves) returns void language plpgsql as $$
begin
  if m.l_wins <> '{}' then
    perform farebox_lock_leases(m.l_wins, m.l_owners, '{}');
    m := farebox_both(m, farebox_overage(m));
  end if;
  perform from budget_windows where seq = any(m.wins) order by seq for update;
  perform farebox_write_moves(m);
end
$$;

-- Part six: batches.

-- Inserts the admitted holds as pending charges. If fewer than `wanted` were inserted, another connection has just inserted one
-- of them. The function then raises an error that asks the caller to retry.
create function farebox_insert_holds(claims jsonb, run bigint, wanted integer, granted bigint[], set_wins text[], leased text[]) returns void language plpgsql as $$
declare
  written integer;
begin
  insert into charges (id, state, owner, ${hold columns}, windows, leased)
  select h.id, 'pending', run, ${hold columns of h},
    coalesce(set_wins[h.set], '{}')::bigint[], ('{' || coalesce(leased[h.n], '') || '}')::bigint[]
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
--           {leases, sharers, collect}     whether holds may use the run's leases; the number of proxies that share a window;
--                                          whether to take back idle parts of all leases first, to repeat claims without room
--           {functions}                    digest of the functions that the caller expects
--   batch   {ids}                          all charges that it names
--           {prices}                       [{id, canonical}], by id
--           {windows}                      [{budget, subject, starts_at, ends_at}] of the holds, by budget, subject and start;
--                                          with {key, day} if clients state the subject
--           {at}                           latest instant of its claims, at which raises must be in force in the window; raises only
--                                          end within a window, so it admits no claim that an earlier instant would refuse
--           {is_raised}                    whether a budget of these windows has raises
--           {hard}                         whether each of these windows is hard
--           {one_key}                      whether each of these windows limits a single key
--           {set_from, set_to, set_items}  the windows in which each caller counts, as positions in `windows`
--           {days}                         days of the settlements
--           {settles, claims, tasks}       see the functions above; a claim is {op: hold | extend, id, set, amount, at_least, ...}
create function farebox_apply(run bigint, version bigint, options jsonb, batch jsonb) returns jsonb
language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  class integer := 'budgets'::regclass::oid::integer;
  prices jsonb;
  settles jsonb;
  claims jsonb;
  tasks jsonb;
  ids text[];
  wins bigint[];
  unopened integer[];
  opened integer[] := '{}';
  refused integer[];
  locked charges[] := '{}';
  ended charges[] := '{}';
  moves farebox_moves;
  admitted jsonb := '{"claims": []}';
begin
  select b.ids, b.prices, b.settles, b.claims, b.tasks into ids, prices, settles, claims, tasks
  from jsonb_to_record(batch) b (ids text[], prices jsonb, settles jsonb, claims jsonb, tasks jsonb);
  perform pg_advisory_xact_lock_shared(class, 0);
  -- After an upgrade, these functions would misread the batch of another release.
  if options ->> 'functions' is distinct from (select m.functions from farebox_migrations m order by m.version desc limit 1) then
    raise exception 'another release of Farebox has upgraded the ledger; restart this process with that release' using errcode = 'FB001';
  end if;
  if (select budgets_version from meta) <> version then
    return '{"refused": "stale"}';
  end if;
  if claims <> '[]' then
    perform pg_advisory_xact_lock_shared(class, run::integer);
    if not exists (select from owners where epoch = run and ended_at is null) then
      return '{"refused": "fenced"}';
    end if;
  end if;
  wins := farebox_find_windows(batch -> 'windows');
  if options ? 'opened' then
    opened := array(select n::integer from jsonb_array_elements_text(options -> 'opened') n);
  end if;
  if array_position(wins, null) is not null or opened <> '{}' then
    unopened := farebox_unopened_windows(batch -> 'windows', wins);
    refused := farebox_count_subjects(batch -> 'windows', wins, (options ->> 'subjects_max')::bigint, opened, unopened = '{}');
    if refused <> '{}' then
      return jsonb_build_object('refused', 'subjects', 'windows', refused);
    end if;
    if unopened <> '{}' then
      return jsonb_build_object('refused', 'unopened', 'windows', unopened);
    end if;
  end if;
  if prices <> '[]' then
    insert into price_versions (id, canonical)
    select p.id, p.canonical from jsonb_to_recordset(prices) p (id text, canonical text) order by p.id collate "C"
    on conflict do nothing;
  end if;

  if array_position(wins, null) is not null then
    wins := farebox_create_windows(batch -> 'windows');
  end if;
  if ids <> '{}' then
    locked := farebox_lock_charges(ids);
  end if;

  if settles <> '[]' then
    ended := farebox_end_charges(settles, ids);
  end if;
  moves := farebox_moves_of(ended, array(select l.id from unnest(locked) l where l.entries is not null));
  if claims <> '[]' then
    admitted := farebox_claim(run, options, batch, wins, locked, moves);
  elsif ended <> '{}' then
    perform farebox_settle(moves);
  end if;
  if exists (select from unnest(ended) e where e.state = 'posted') then
    perform farebox_roll_up(batch -> 'days', ended, coalesce(run, 0) % 8);
  end if;
  return admitted || jsonb_build_object(
    'settles', case when settles = '[]' then '[]' else farebox_settle_replies(locked, ended) end,
    'tasks', case when tasks = '[]' then '[]' else farebox_write_tasks(tasks, locked) end
  );
end
$$;

-- Decides and writes a batch's claims, together with the changes that its settlements cause.
create function farebox_claim(run bigint, options jsonb, batch jsonb, wins bigint[], locked charges[], m farebox_moves) returns jsonb language plpgsql as $$
declare
  claims jsonb;
  collect boolean;
  sharers integer;
  by_lease boolean;
  set_from integer[];
  set_to integer[];
  item_window integer[];
  item_slot integer[];
  slot_window integer[] := '{}';
  slot_owner bigint[] := '{}';
  is_hard boolean[];
  one_key boolean[];
  known boolean[];
  weightless boolean[];
  owed boolean[];
  at_ms bigint;
  is_raised boolean;
  sets integer[];
  amounts bigint[];
  at_least bigint[];
  needed bigint[];
  idle bigint[];
  slot_spent bigint[];
  f record;
  a record;
begin
  select b.claims, b.at, b.is_raised, b.set_from, b.set_to, b.set_items, b.hard, b.one_key, o.collect, o.sharers, o.leases and not o.collect
  into claims, at_ms, is_raised, set_from, set_to, item_window, is_hard, one_key, collect, sharers, by_lease
  from jsonb_to_record(batch) b (claims jsonb, at bigint, is_raised boolean, set_from integer[], set_to integer[], set_items integer[], hard boolean[], one_key boolean[]),
    jsonb_to_record(options) o (leases boolean, sharers integer, collect boolean);
  if by_lease then
    slot_window := array(select generate_subscripts(wins, 1));
    slot_owner := array_fill(run, array[cardinality(wins)]);
    item_slot := item_window;
  else
    item_slot := array_fill(0, array[cardinality(item_window)]);
  end if;
  select array_agg(c.set order by c.n), array_agg(case when l.id is null or c.op = 'extend' then c.amount end order by c.n), array_agg(c.at_least order by c.n),
    array_agg(l.id is not null order by c.n), array_agg(c.op = 'extend' and l.hold is null order by c.n),
    array_agg(c.owed is true order by c.n)
  into sets, amounts, at_least, known, weightless, owed
  from rows from (jsonb_to_recordset(claims) as (op text, id text, "set" integer, amount bigint, at_least bigint, owed boolean)) with ordinality c (op, id, "set", amount, at_least, owed, n)
  left join unnest(locked) l on l.id = c.id;
  if at_least <> array_fill(null::bigint, array[cardinality(at_least)]) then
    select e.* into sets, set_from, set_to, item_window, item_slot, slot_window, slot_owner, wins
    from farebox_extension_sets(claims, locked, sets, set_from, set_to, item_window, item_slot, slot_window, slot_owner, wins) e;
    is_raised := true;
  end if;

  if slot_window <> '{}' or m.l_wins <> '{}' or collect then
    perform farebox_lock_leases(
      m.l_wins || array(select wins[p] from unnest(slot_window) p), m.l_owners || slot_owner, case when collect then wins else '{}' end
    );
    if m.l_wins <> '{}' then
      m := farebox_both(m, farebox_overage(m));
    end if;
    if collect then
      m := farebox_both(m, farebox_collect(wins, m));
    end if;
  end if;
  select s.idle, s.spent into idle, slot_spent from farebox_slots(wins, is_hard, slot_window, slot_owner, m) s;
  needed := m.wins || case
    when slot_window = '{}' then wins
    else farebox_short_windows(wins, sets, amounts, set_from, set_to, item_window, item_slot, idle)
  end;
  -- When a raise ends, the idle amounts of leases may exceed the new limit. The gap is exact only in a locked window.
  if is_raised and slot_window <> '{}' then
    needed := needed || array(select w.seq from budget_windows w join budgets b on b.seq = w.budget where w.seq = any(wins) and b.is_raised = 1);
  end if;
  perform from budget_windows where seq = any(needed) order by seq for update;
  select * into f from farebox_figures(at_ms, wins, m, slot_window, idle);
  select * into a from farebox_admit(
    by_lease, sharers, sets, amounts, at_least, weightless, owed, set_from, set_to, item_window, item_slot,
    wins, f.hard, f.gap, f.room, f.elsewhere, array(select win = any(needed) from unnest(wins) win), idle, slot_spent, one_key
  );

  perform farebox_write_moves(farebox_both(m, (
    wins, a.w_spent, a.w_held, a.w_leased,
    array(select wins[slot_window[s]] from unnest(a.used) s), array(select slot_owner[s] from unnest(a.used) s),
    array(select case when idle[s] is not null then a.s_granted[s] end from unnest(a.used) s), array(select a.s_spent[s] from unnest(a.used) s),
    array(select a.s_held[s] from unnest(a.used) s)
  )::farebox_moves));
  perform farebox_write_claims(run, batch, a.granted, at_least, set_from, set_to, item_window, wins, a.leased);
  return farebox_claim_replies(at_ms, at_least, wins, sets, known, f.spent, a.granted, a.rest, a.key_rest, a.short, a.again);
end
$$;

-- Adds the set of windows of each extension of a pending charge, with the leases that contain its hold.
create function farebox_extension_sets(
  claims jsonb, locked charges[], inout sets integer[], inout set_from integer[], inout set_to integer[], inout item_window integer[], inout item_slot integer[],
  inout slot_window integer[], inout slot_owner bigint[], inout wins bigint[]
) language plpgsql as $$
declare
  each record;
  win bigint;
  p integer;
  s integer;
begin
  for each in
    select c.n, l.windows, l.leased, l.owner
    from rows from (jsonb_to_recordset(claims) as (op text, id text)) with ordinality c (op, id, n) join unnest(locked) l on l.id = c.id
    where c.op = 'extend' and l.state = 'pending' order by c.n
  loop
    set_from := set_from || cardinality(item_window) + 1;
    foreach win in array each.windows loop
      if array_position(wins, win) is null then
        wins := wins || win;
      end if;
      p := array_position(wins, win);
      s := 0;
      if win = any(each.leased) then
        s := (select k from generate_subscripts(slot_window, 1) k where slot_window[k] = p and slot_owner[k] = each.owner);
        if s is null then
          slot_window := slot_window || p;
          slot_owner := slot_owner || each.owner;
          s := cardinality(slot_window);
        end if;
      end if;
      item_window := item_window || p;
      item_slot := item_slot || s;
    end loop;
    set_to := set_to || cardinality(item_window);
    sets[each.n] := cardinality(set_to);
  end loop;
end
$$;

-- Returns the idle and the spent amount of each slot after the changes. `idle` is null in a soft budget.
create function farebox_slots(wins bigint[], is_hard boolean[], slot_window integer[], slot_owner bigint[], m farebox_moves, out idle bigint[], out spent bigint[]) language plpgsql as $$
begin
  if slot_window = '{}' then
    idle := '{}';
    spent := '{}';
    return;
  end if;
  select
    array_agg(case when case when l.win is null then is_hard[s.p] else l.granted is not null end
      then coalesce(l.granted - l.held - l.spent, 0) + coalesce(d.granted - d.held - d.spent, 0) end order by s.k),
    array_agg(coalesce(l.spent, 0) + coalesce(d.spent, 0) order by s.k)
  into idle, spent
  from unnest(slot_window, slot_owner) with ordinality s (p, owner, k)
  left join window_leases l on l.win = any(wins) and l.win = wins[s.p] and l.owner = s.owner
  left join (
    select a.win, a.owner, sum(a.granted) as granted, sum(a.spent) as spent, sum(a.held) as held
    from unnest(m.l_wins, m.l_owners, m.l_granted, m.l_spent, m.l_held) a (win, owner, granted, spent, held) group by 1, 2
  ) d on d.win = wins[s.p] and d.owner = s.owner;
end
$$;

-- Returns the windows whose own rows the claims need. These windows have no lease, or a lease with too little idle for all claims.
create function farebox_short_windows(
  wins bigint[], sets integer[], amounts bigint[], set_from integer[], set_to integer[], item_window integer[], item_slot integer[], idle bigint[]
) returns bigint[] language plpgsql immutable as $$
begin
  return (
    select coalesce(array_agg(distinct wins[p]), '{}')
    from (
      select item_window[i] as p, item_slot[i] as s, sum(c.amount) as wanted
      from unnest(sets, amounts) c (in_set, amount) cross join lateral generate_series(set_from[c.in_set], set_to[c.in_set]) i
      where c.amount is not null group by 1, 2
    ) demand
    where s = 0 or wanted > idle[s]
  );
end
$$;

-- Returns the raises that are in force in a window at an instant, or at the nearest instant inside the window. An extension counts
-- in the windows of its hold's admission, which may have ended. Sorts the raises by seq.
create function farebox_raises(win budget_windows, at_ms bigint) returns setof raises language sql stable as $$
  select r.* from raises r, greatest(win.starts_at, least(at_ms, win.ends_at - 1)) inside
  where r.budget = win.budget and r.subject = win.subject collate "C" and r.starts_at <= inside and (r.until is null or r.until > inside)
  order by r.seq
$$;

-- Returns for each window, after the changes: whether it is hard; its limit minus all amounts spent and held; the amount that its
-- row can grant; the idle amount in leases that are not slots; and the total amount spent.
create function farebox_figures(
  at_ms bigint, wins bigint[], m farebox_moves, slot_window integer[], idle bigint[],
  out hard boolean[], out gap bigint[], out room bigint[], out elsewhere bigint[], out spent bigint[]
) language plpgsql as $$
begin
    select
      coalesce(array_agg(b.mode = 'hard' order by x.p), '{}'),
      coalesce(array_agg(case when b.mode = 'hard' then most - all_spent - all_held end order by x.p), '{}'),
      coalesce(array_agg(case when b.mode = 'hard' then most - w.spent - w.held - w.leased - coalesce(d.spent + d.held + d.leased, 0) end order by x.p)::bigint[], '{}'),
      coalesce(array_agg(coalesce(l.idle, 0) + coalesce(dl.idle, 0) - coalesce((select sum(farebox_figures.idle[s]) from generate_subscripts(slot_window, 1) s where slot_window[s] = x.p), 0) order by x.p)::bigint[], '{}'),
      coalesce(array_agg(all_spent order by x.p), '{}')
    into hard, gap, room, elsewhere, spent
    from unnest(wins) with ordinality x (win, p)
    join budget_windows w on w.seq = any(wins) and w.seq = x.win
    join budgets b on b.seq = w.budget
    left join (
      select a.win, sum(a.spent) as spent, sum(a.held) as held, sum(a.leased) as leased from unnest(m.wins, m.spent, m.held, m.leased) a (win, spent, held, leased) group by 1
    ) d on d.win = x.win
    left join (
      select a.win, sum(a.spent) as spent, sum(a.held) as held, sum(a.granted) - sum(a.spent) - sum(a.held) as idle
      from unnest(m.l_wins, m.l_granted, m.l_spent, m.l_held) a (win, granted, spent, held) group by 1
    ) dl on dl.win = x.win
    left join lateral (
      select sum(e.spent) as spent, sum(e.held) as held, sum(e.granted - e.held - e.spent) as idle from window_leases e where e.win = x.win
    ) l on true
    cross join lateral (
      select (w.spent + coalesce(l.spent, 0) + coalesce(d.spent, 0) + coalesce(dl.spent, 0))::bigint as all_spent,
        (w.held + coalesce(l.held, 0) + coalesce(d.held, 0) + coalesce(dl.held, 0))::bigint as all_held,
        b.amount_limit + case when b.is_raised = 0 then 0 else (select coalesce(sum(r.amount), 0)::bigint from farebox_raises(w, at_ms) r) end as most
    ) whole;
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

-- Writes the granted claims: new charges, and larger holds.
create function farebox_write_claims(
  run bigint, batch jsonb, granted bigint[], at_least bigint[], set_from integer[], set_to integer[], item_window integer[], wins bigint[], leased text[]
) returns void language plpgsql as $$
declare
  holds integer := 0;
  extensions integer := 0;
  set_wins text[] := '{}';
begin
  for c in 1 .. cardinality(granted) loop
    if at_least[c] is not null then
      extensions := extensions + 1;
    elsif granted[c] is not null then
      holds := holds + 1;
    end if;
  end loop;
  if holds > 0 then
    for s in 1 .. cardinality(set_from) loop
      set_wins[s] := (select coalesce(array_agg(wins[item_window[i]]), '{}')::text from generate_series(set_from[s], set_to[s]) i);
    end loop;
    perform farebox_insert_holds(batch -> 'claims', run, holds, granted, set_wins, leased);
  end if;
  if extensions > 0 then
    perform farebox_enlarge_holds(batch -> 'claims', granted);
  end if;
end
$$;

-- Returns the reply to each claim: [ok, room, key room], [granted, amount], [not_pending], [looked, room, key room, known],
-- or [short, again, [[window, gap], ...]]. For short claims, `windows` contains [budget, subject, starts_at, ends_at, spent,
-- [[amount, starts_at, until] of each raise]] of each window.
create function farebox_claim_replies(
  at_ms bigint, at_least bigint[], wins bigint[], sets integer[], known boolean[], all_spent bigint[], granted bigint[], rest bigint[], key_rest bigint[], short text[], again boolean[]
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
      when short[c] is not null then jsonb_build_array('short', again[c], ('[' || short[c] || ']')::jsonb)
      else jsonb_build_array('looked', rest[c]::text, key_rest[c]::text, known[c])
    end;
  end loop;
  if array_remove(short, null) <> '{}' then
    select jsonb_agg(jsonb_build_array(w.budget, w.subject, w.starts_at, w.ends_at, all_spent[x.p]::text, (
      select coalesce(jsonb_agg(jsonb_build_array(r.amount::text, r.starts_at, r.until) order by r.seq), '[]') from farebox_raises(w, at_ms) r
    )) order by x.p) into shown
    from unnest(wins) with ordinality x (win, p) join budget_windows w on w.seq = x.win;
  end if;
  return jsonb_build_object('claims', to_jsonb(replies), 'windows', shown);
end
$$;

-- Part seven: runs of proxies, and how their leases end.

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
  from owners o where o.serves = 1 and o.ended_at is null and o.beat_at > clock_timestamp() - interval '5 seconds';
end
$$;

-- Moves the spent amounts of leases to their windows, and gives back the idle amounts. Locks the leases first.
create function farebox_fold_leases(l_wins bigint[], l_owners bigint[]) returns void language plpgsql as $$
declare
  m farebox_moves;
begin
  perform farebox_lock_leases(l_wins, l_owners, '{}');
  perform from budget_windows where seq = any(l_wins) order by seq for update;
  select
    coalesce(array_agg(l.win), '{}'), coalesce(array_agg(l.spent), '{}'), coalesce(array_agg(0), '{}'), coalesce(array_agg(coalesce(l.held - l.granted, 0)), '{}'),
    coalesce(array_agg(l.win), '{}'), coalesce(array_agg(l.owner), '{}'), coalesce(array_agg(l.held - l.granted), '{}'), coalesce(array_agg(-l.spent), '{}'), coalesce(array_agg(0), '{}')
  into m.wins, m.spent, m.held, m.leased, m.l_wins, m.l_owners, m.l_granted, m.l_spent, m.l_held
  from window_leases l where l.win = any(l_wins) and (l.win, l.owner) in (select * from unnest(l_wins, l_owners));
  perform farebox_write_moves(m);
end
$$;

-- Gives the idle amounts of a run's leases back to the windows.
create function farebox_return_leases(run bigint) returns void language plpgsql as $$
declare
  l_wins bigint[];
begin
  perform pg_advisory_xact_lock_shared('budgets'::regclass::oid::integer, 0);
  l_wins := array(select win from window_leases where owner = run order by win);
  if l_wins <> '{}' then
    perform farebox_fold_leases(l_wins, array_fill(run, array[cardinality(l_wins)]));
    delete from window_leases where owner = run and held = 0 and spent = 0;
  end if;
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

-- Gives back the amounts in a live run's leases of ended windows, for up to `at_once` leases. Returns the number of leases.
create function farebox_tidy_leases(run bigint, over_before bigint, at_once integer) returns integer language plpgsql as $$
declare
  l_wins bigint[];
begin
  perform pg_advisory_xact_lock_shared('budgets'::regclass::oid::integer, 0);
  l_wins := array(
    select l.win from window_leases l join budget_windows w on w.seq = l.win
    where l.owner = run and w.ends_at < over_before and (l.spent <> 0 or l.granted > 0) and l.held = 0 order by l.win limit at_once
  );
  if l_wins <> '{}' then
    perform farebox_fold_leases(l_wins, array_fill(run, array[cardinality(l_wins)]));
  end if;
  return cardinality(l_wins);
end
$$;
