-- What a running proxy asks for often, as functions: one call is one transaction and one round trip, so that a proxy that is
-- stopped in the middle never holds a lock. The rules of budgets are those of src/core/budget.ts; the calendar stays outside.
--
-- These are no migration. An upgrade drops every function of the ledger and runs this file, whether the schema changed or not:
-- change a function here, in place. Tables are changed by migrations. ${...} are columns of charges, filled in by schema.ts.
--
-- All who write take locks in one order, and so never wait for each other in a circle:
--   the budgets' lock, the run's lock (both advisory); prices by id; missing windows by budget, subject and start; charges by
--   id; leases by window and owner; windows by seq; then rollups and tasks by their keys.

-- The functions of the release before. Those of triggers belong to their tables.
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

-- Part one: the months of charges.

-- Makes the partition of the month (of UTC) that holds the instant, where it is missing.
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
  -- Attached, rather than made as a partition, because that lets the others write meanwhile.
  execute format('create table %I (like charges including defaults including constraints)', name);
  execute format(
    'alter table charges attach partition %I for values from (%s) to (%s)',
    name, (extract(epoch from first) * 1000)::bigint, (extract(epoch from first + interval '1 month') * 1000)::bigint
  );
end
$$;

-- Part two: windows.

-- Whether a budget's scope has a charge of this key, team and session in the window of this subject.
create function farebox_counts(scope text, subject text, key text, team text, session text) returns boolean language sql immutable as $$
  select case
    when scope = 'all' then true
    when scope like 'team:%' then team = substr(scope, 6)
    when scope like 'key:% tag:session=%' then key = substr(split_part(scope, ' ', 1), 5) and session = split_part(scope, ' tag:session=', 2)
    when scope like 'key:%' then key = substr(scope, 5)
    when scope = 'each-key' then key = subject
    else key = subject and team = substr(scope, 10)
  end
$$;

-- What the charges of a scope in a span add up to. An error where a sum is beyond 64 bits.
create function farebox_charged(scope text, subject text, since bigint, until bigint, out spent bigint, out held bigint) language plpgsql as $$
begin
  if scope like 'key:% tag:session=%' then
    select coalesce(sum(c.cost), 0), coalesce(sum(c.hold) filter (where c.state = 'pending'), 0) into spent, held
    from charges c
    where c.session = split_part(scope, ' tag:session=', 2) and c.admitted_at >= since and c.admitted_at < until
      and farebox_counts(scope, subject, c.key, c.team, c.session);
  elsif scope like 'key:%' or scope like 'each-key%' then
    select coalesce(sum(c.cost), 0), coalesce(sum(c.hold) filter (where c.state = 'pending'), 0) into spent, held
    from charges c
    where c.key = case when scope like 'key:%' then substr(scope, 5) else subject end
      and c.admitted_at >= since and c.admitted_at < until and farebox_counts(scope, subject, c.key, c.team, c.session);
  else
    select coalesce(sum(c.cost), 0), coalesce(sum(c.hold) filter (where c.state = 'pending'), 0) into spent, held
    from charges c
    where c.admitted_at >= since and c.admitted_at < until and farebox_counts(scope, subject, c.key, c.team, c.session);
  end if;
end
$$;

-- The windows that are asked for as [{budget, subject, starts_at, ends_at}], by their seq in that order. Missing ones are made:
-- `made` names those, which farebox_fill_windows is to be called for once the charges in `late` are locked.
create function farebox_open_windows(asked jsonb, out wins bigint[], out made bigint[], out late text[]) language plpgsql as $$
begin
  made := '{}';
  late := '{}';
  wins := farebox_find_windows(asked);
  if array_position(wins, null) is null then
    return;
  end if;
  with inserted as (
    insert into budget_windows (budget, subject, starts_at, ends_at, spent, held)
    select a.budget, a.subject, a.starts_at, a.ends_at, 0, 0
    from jsonb_to_recordset(asked) a (budget bigint, subject text collate "C", starts_at bigint, ends_at bigint)
    where not exists (select from budget_windows w where w.budget = a.budget and w.subject = a.subject and w.starts_at = a.starts_at)
    order by a.budget, a.subject, a.starts_at
    on conflict do nothing
    returning seq
  )
  select coalesce(array_agg(seq), '{}') into made from inserted;
  wins := farebox_find_windows(asked);
  select coalesce(array_agg(c.id), '{}') into late
  from budget_windows w join budgets b on b.seq = w.budget
  join charges c on c.state = 'pending' and c.admitted_at >= w.starts_at and c.admitted_at < coalesce(w.ends_at, 9223372036854775807)
    and farebox_counts(b.scope, w.subject, c.key, c.team, c.session)
  where w.seq = any(made);
end
$$;

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

-- Gives windows that were just made, and are empty, the sums of their charges. Charges that are pending in them count in them
-- from now on: they are locked already. A hold under a budget of the present version made its window itself, so no one places
-- another one meanwhile.
create function farebox_fill_windows(made bigint[]) returns void language plpgsql as $$
declare
  each record;
begin
  for each in
    select w.seq, w.subject, w.starts_at, coalesce(w.ends_at, 9223372036854775807) as ends_at, b.scope
    from budget_windows w join budgets b on b.seq = w.budget where w.seq = any(made) order by w.seq
  loop
    update charges c set windows = c.windows || each.seq
    where c.state = 'pending' and c.admitted_at >= each.starts_at and c.admitted_at < each.ends_at
      and farebox_counts(each.scope, each.subject, c.key, c.team, c.session) and not each.seq = any(c.windows);
    update budget_windows w set spent = charged.spent, held = charged.held
    from farebox_charged(each.scope, each.subject, each.starts_at, each.ends_at) charged where w.seq = each.seq;
  end loop;
end
$$;

-- Part three: what a batch does with charges.

-- The charges of these ids, locked in the order of id. Each month's index of ids is asked: a plan that went by the time, where a
-- month is new and nothing is known of its size, would read all of it.
create function farebox_lock_charges(ids text[]) returns charges[] language plpgsql as $$
begin
  return (
    select coalesce(array_agg(charge), '{}')
    from (select c as charge from charges c where c.id = any(ids) order by c.id for update) locked
  );
end
$$;

-- Ends those of the locked charges that are pending as `settles` says, and returns them as they are now. `orphan`: only while no
-- known task pays from it. "assumed" is the hold itself, as the ledger has it: an extension may have been granted without the
-- caller receiving the reply.
create function farebox_end_charges(settles jsonb, ids text[]) returns charges[]
language plpgsql set enable_nestloop = off as $$
declare
  ended charges[];
begin
  with done as (
    update charges c set
      state = g.state, ${settled columns from g},
      cost = case when g.formula = 'assumed' then c.hold else g.cost end,
      list_cost = case when g.formula = 'assumed' then c.hold else g.list_cost end,
      overage = case when g.formula <> 'assumed' and g.cost > c.hold then g.cost - c.hold else 0 end,
      in_doubt = case when g.doubts is not null then coalesce(case when g.formula = 'assumed' then c.hold else g.cost end, 0) else 0 end
    from jsonb_to_recordset(settles) g (id text, orphan boolean, state text, ${settled columns with types})
    -- Found by their ids alone: the plan must not go by way of all that is pending, or of all of a time.
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

-- What is answered of charges that have ended: [id, first, state, cost, overage]. Of those that were to end and are not here
-- there is no such charge.
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

-- Adds posted charges to the rollups, each row once and in the order of their keys. Each proxy writes rows of its own shard.
-- `days`: [{day, starts_at, ends_at}], all that they are of.
create function farebox_roll_up(days jsonb, ended charges[], own_shard bigint) returns void language plpgsql as $$
begin
  insert into rollup_quarter as r (
    starts_at, key, team, model, price_group, source, shard, requests, unpriced, retries, input, cached_input, cache_write,
    cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, cost, list_cost, in_doubt
  )
  select c.admitted_at - c.admitted_at % 900000, c.key, coalesce(c.team, ''), c.model, coalesce(c.price_group, ''), c.source, own_shard,
    count(*), count(*) filter (where c.cost is null), count(*) filter (where c.retry > 0),
    coalesce(sum(c.input), 0), coalesce(sum(c.cached_input), 0), coalesce(sum(c.cache_write), 0),
    coalesce(sum(c.cache_write_1h), 0), coalesce(sum(c.audio_input), 0), coalesce(sum(c.image_input), 0),
    coalesce(sum(c.output), 0), coalesce(sum(c.reasoning), 0), coalesce(sum(c.audio_output), 0),
    coalesce(sum(c.image_output), 0), coalesce(sum(c.cost), 0), coalesce(sum(c.list_cost), 0), coalesce(sum(c.in_doubt), 0)
  from unnest(ended) c where c.state = 'posted'
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (starts_at, key, team, model, price_group, source, shard) do update set
    requests = r.requests + excluded.requests, unpriced = r.unpriced + excluded.unpriced,
    retries = r.retries + excluded.retries, input = r.input + excluded.input,
    cached_input = r.cached_input + excluded.cached_input, cache_write = r.cache_write + excluded.cache_write,
    cache_write_1h = r.cache_write_1h + excluded.cache_write_1h, audio_input = r.audio_input + excluded.audio_input,
    image_input = r.image_input + excluded.image_input, output = r.output + excluded.output,
    reasoning = r.reasoning + excluded.reasoning, audio_output = r.audio_output + excluded.audio_output,
    image_output = r.image_output + excluded.image_output, cost = r.cost + excluded.cost,
    list_cost = r.list_cost + excluded.list_cost, in_doubt = r.in_doubt + excluded.in_doubt;

  insert into rollup_day as r (
    day, key, team, model, price_group, source, shard, requests, unpriced, retries, input, cached_input, cache_write,
    cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, cost, list_cost, in_doubt
  )
  select d.day, c.key, coalesce(c.team, ''), c.model, coalesce(c.price_group, ''), c.source, own_shard,
    count(*), count(*) filter (where c.cost is null), count(*) filter (where c.retry > 0),
    coalesce(sum(c.input), 0), coalesce(sum(c.cached_input), 0), coalesce(sum(c.cache_write), 0),
    coalesce(sum(c.cache_write_1h), 0), coalesce(sum(c.audio_input), 0), coalesce(sum(c.image_input), 0),
    coalesce(sum(c.output), 0), coalesce(sum(c.reasoning), 0), coalesce(sum(c.audio_output), 0),
    coalesce(sum(c.image_output), 0), coalesce(sum(c.cost), 0), coalesce(sum(c.list_cost), 0), coalesce(sum(c.in_doubt), 0)
  from jsonb_to_recordset(days) d (day text, starts_at bigint, ends_at bigint)
  join unnest(ended) c on c.admitted_at >= d.starts_at and c.admitted_at < d.ends_at
  where c.state = 'posted'
  group by 1, 2, 3, 4, 5, 6 order by d.day collate "C", 2, 3, 4, 5, 6
  on conflict (day, key, team, model, price_group, source, shard) do update set
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

-- Binds, sees and ends tasks, in the order of their ids; answers as src/ports/task-store.ts has it, in the order given. The
-- charges of those that are bound or ended are locked.
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

-- 'ok', 'taken' or 'no_such_charge'.
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

-- Part four: admission. What a window has left is known in two ways: `room` is what may be granted from its own row, and `gap`
-- what its limit is above all that is spent and held, wherever it stands. A slot is a lease of one window; its `idle` part is
-- what it was granted and holds nothing, null in a soft budget, which has no end.

-- The slice of a window that a lease takes when it is short: a part of what is left for each of those who share it, as long as
-- that is worth several holds of this size. So slices shrink as the budget nears its end.
create function farebox_slice(room bigint, sharers integer, amount bigint) returns bigint language sql immutable as $$
  select case when room / (4 * sharers) >= 8 * amount::numeric then room / (4 * sharers) else 0 end
$$;

-- Decides on holds and extensions one by one, over arrays. Reads and writes no table.
--
-- A claim is a hold of `amounts` (null: only looked at), or, where `at_least` is not null, an extension by as much of it as there is room for. It counts
-- in the items of its set, each a window with a slot: 0 for none. What is `weightless` (a hold without an amount) moves nothing. `by_lease`: holds may go into slots, and slices be taken.
-- Whole answers: what was granted (null: refused), what the tightest hard window has left, the windows of those in whose slots
-- it stands, and for a refused one which windows were short at what gap; `again`: others have idle parts of those.
-- Then what moves, by window and by slot, of those slots that are used.
create function farebox_admit(
  by_lease boolean, sharers integer, sets integer[], amounts bigint[], at_least bigint[], weightless boolean[],
  set_from integer[], set_to integer[], item_window integer[], item_slot integer[],
  wins bigint[], hard boolean[], gap bigint[], room bigint[], elsewhere bigint[], locked boolean[],
  idle bigint[], slot_spent bigint[],
  out granted bigint[], out rest bigint[], out leased text[], out short text[], out again boolean[],
  out w_spent bigint[], out w_held bigint[], out w_leased bigint[], out used integer[], out s_granted bigint[], out s_held bigint[], out s_spent bigint[]
) language plpgsql as $$
declare
  amount bigint;
  slack bigint;
  p integer;
  s integer;
  -- For each item of the present claim where it goes: 'lease', 'slice' (a lease that takes one), 'top' (one that takes what it lacks), 'row'.
  ways text[] := '{}';
  slice bigint;
  is_short boolean;
begin
  granted := array_fill(null::bigint, array[cardinality(sets)]);
  rest := granted;
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

    -- An extension is granted as much as the tightest window has room for.
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
        ways[i] := case when not hard[p] or amount <= room[p] then 'row' end;
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
        again[c] := again[c] or not locked[p] or elsewhere[p] > 0 or (s > 0 and idle[s] > 0);
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
            -- What the slot has spent goes to the window's row.
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
      end if;
    end loop;
  end loop;
end
$$;

-- Part five: what moves in windows and leases.

-- Sums to be added, by window and by lease. One that stands in both is in both: what a lease was granted is `leased` in the
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

-- What the end of charges moves: in the window's row where the hold stands there, in the lease where it stands in one.
create function farebox_moves_of(ended charges[]) returns farebox_moves language plpgsql as $$
declare
  m farebox_moves := row('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
begin
  if ended = '{}' then
    return m;
  end if;
  select coalesce(array_agg(win), '{}'), coalesce(array_agg(spent), '{}'), coalesce(array_agg(held), '{}'), coalesce(array_agg(0), '{}')
  into m.wins, m.spent, m.held, m.leased
  from (
    select win, sum(coalesce(e.cost, 0)) as spent, -sum(coalesce(e.hold, 0)) as held
    from unnest(ended) e cross join lateral unnest(e.windows) win where not win = any(e.leased) group by win
  ) direct;
  if exists (select from unnest(ended) e where e.leased <> '{}') then
    select array_agg(win), array_agg(owner), array_agg(0), array_agg(spent), array_agg(held)
    into m.l_wins, m.l_owners, m.l_granted, m.l_spent, m.l_held
    from (
      select win, e.owner, sum(coalesce(e.cost, 0)) as spent, -sum(coalesce(e.hold, 0)) as held
      from unnest(ended) e cross join lateral unnest(e.leased) win group by win, e.owner
    ) by_lease;
  end if;
  return m;
end
$$;

-- Locks these leases in order: of the windows `whole` all, of the others those named.
create function farebox_lock_leases(l_wins bigint[], l_owners bigint[], whole bigint[]) returns void language plpgsql as $$
begin
  perform from window_leases l
  where l.win = any(l_wins || whole) and (l.win = any(whole) or (l.win, l.owner) in (select * from unnest(l_wins, l_owners)))
  order by l.win, l.owner for update;
end
$$;

-- What must be granted to locked leases for what was posted beyond the holds in them: what a window knows to be out is never
-- less than what is. One that was given back meanwhile, because nothing was held in it, is made again.
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

-- Takes the idle parts of all leases of these windows back, where they are more than nothing after what moves; all are locked.
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

-- Applies what moves to locked rows. A lease that is not there yet is made; of a soft budget nothing is granted: null.
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

-- Moves what ended, where nothing is claimed beside it.
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

-- Part six: a batch.

-- Writes the holds that were admitted, as pending: so many are `wanted`. One that is there already by now was written by another connection meanwhile:
-- an error that asks to be tried again.
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

-- One batch of a run: settlements first, then claims (holds and extensions) in their order, then tasks. All ids in it are
-- different. `version` is that of the budgets by which windows and days were named: where it is another one by now, or the
-- run has ended, nothing is done and the answer says so.
--
--   options {leases, sharers, collect}   whether holds may go into the run's own leases; how many share a window; whether the idle
--                                        parts of all leases are taken back first, for claims that found others to have some
--           {functions}                  the digest of the functions that the caller was written for
--   batch   {ids}                        all charges that it names
--           {prices}                     [{id, canonical}], by id
--           {windows}                    [{budget, subject, starts_at, ends_at, hard}] of the holds, by budget, subject and start
--           {sets}                       {from, to, items}: which windows a caller counts in, as positions
--           {days}                       the days of the settlements
--           {settles, claims, tasks}     see the functions above; a claim is {op: hold | extend, id, set, amount, at_least, ...}
create function farebox_apply(run bigint, version bigint, options jsonb, batch jsonb) returns jsonb
language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  class integer := 'budgets'::regclass::oid::integer;
  settles jsonb := batch -> 'settles';
  claims jsonb := batch -> 'claims';
  tasks jsonb := batch -> 'tasks';
  ids text[] := array(select jsonb_array_elements_text(batch -> 'ids'));
  wins bigint[];
  made bigint[];
  late text[];
  locked charges[];
  ended charges[] := '{}';
  admitted jsonb := '{"claims": []}';
begin
  perform pg_advisory_xact_lock_shared(class, 0);
  -- A proxy that slept through an upgrade would have its batch read by another release's rules.
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
  if batch -> 'prices' <> '[]' then
    insert into price_versions (id, canonical)
    select p.id, p.canonical from jsonb_to_recordset(batch -> 'prices') p (id text, canonical text) order by p.id collate "C"
    on conflict do nothing;
  end if;

  select o.wins, o.made, o.late into wins, made, late from farebox_open_windows(batch -> 'windows') o;
  if late <> '{}' then
    locked := farebox_lock_charges(ids || late);
  elsif ids <> '{}' then
    locked := farebox_lock_charges(ids);
  else
    locked := '{}';
  end if;
  if made <> '{}' then
    perform farebox_fill_windows(made);
    if late <> '{}' then
      locked := farebox_lock_charges(ids);
    end if;
  end if;

  if settles <> '[]' then
    ended := farebox_end_charges(settles, ids);
  end if;
  if claims <> '[]' then
    admitted := farebox_claim(run, options, batch, wins, locked, farebox_moves_of(ended));
  elsif ended <> '{}' then
    perform farebox_settle(farebox_moves_of(ended));
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

-- The claims of a batch: which leases and windows they need, what becomes of them, and what that moves beside the settlements.
create function farebox_claim(run bigint, options jsonb, batch jsonb, wins bigint[], locked charges[], m farebox_moves) returns jsonb language plpgsql as $$
declare
  claims jsonb := batch -> 'claims';
  collect boolean := options -> 'collect';
  sharers integer := options -> 'sharers';
  by_lease boolean := (options -> 'leases')::boolean and not collect;
  set_from integer[] := array(select jsonb_array_elements_text(batch #> '{sets,from}'));
  set_to integer[] := array(select jsonb_array_elements_text(batch #> '{sets,to}'));
  item_window integer[] := array(select jsonb_array_elements_text(batch #> '{sets,items}'));
  item_slot integer[];
  slot_window integer[] := '{}';
  slot_owner bigint[] := '{}';
  is_hard boolean[] := array(select jsonb_array_elements_text(jsonb_path_query_array(batch, '$.windows[*].hard')));
  known boolean[];
  weightless boolean[];
  sets integer[];
  amounts bigint[];
  at_least bigint[];
  needed bigint[];
  idle bigint[];
  slot_spent bigint[];
  f record;
  a record;
begin
  if by_lease then
    slot_window := array(select generate_subscripts(wins, 1));
    slot_owner := array_fill(run, array[cardinality(wins)]);
    item_slot := item_window;
  else
    item_slot := array_fill(0, array[cardinality(item_window)]);
  end if;
  select array_agg(c.set order by c.n), array_agg(case when l.id is null or c.op = 'extend' then c.amount end order by c.n), array_agg(c.at_least order by c.n),
    array_agg(l.id is not null order by c.n), array_agg(c.op = 'extend' and l.hold is null order by c.n)
  into sets, amounts, at_least, known, weightless
  from rows from (jsonb_to_recordset(claims) as (op text, id text, "set" integer, amount bigint, at_least bigint)) with ordinality c (op, id, "set", amount, at_least, n)
  left join unnest(locked) l on l.id = c.id;
  if at_least <> array_fill(null::bigint, array[cardinality(at_least)]) then
    select e.* into sets, set_from, set_to, item_window, item_slot, slot_window, slot_owner, wins
    from farebox_extension_sets(claims, locked, sets, set_from, set_to, item_window, item_slot, slot_window, slot_owner, wins) e;
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
  perform from budget_windows where seq = any(needed) order by seq for update;
  select * into f from farebox_figures(wins, m, slot_window, idle);
  select * into a from farebox_admit(
    by_lease, sharers, sets, amounts, at_least, weightless, set_from, set_to, item_window, item_slot,
    wins, f.hard, f.gap, f.room, f.elsewhere, array(select win = any(needed) from unnest(wins) win), idle, slot_spent
  );

  perform farebox_write_moves(farebox_both(m, (
    wins, a.w_spent, a.w_held, a.w_leased,
    array(select wins[slot_window[s]] from unnest(a.used) s), array(select slot_owner[s] from unnest(a.used) s),
    array(select case when idle[s] is not null then a.s_granted[s] end from unnest(a.used) s), array(select a.s_spent[s] from unnest(a.used) s),
    array(select a.s_held[s] from unnest(a.used) s)
  )::farebox_moves));
  perform farebox_write_claims(run, batch, a.granted, at_least, set_from, set_to, item_window, wins, a.leased);
  return farebox_claim_replies(at_least, wins, sets, known, f.spent, a.granted, a.rest, a.short, a.again);
end
$$;

-- Adds, for each extension of a pending charge, the set of windows that it counts in, with the leases in which its hold stands.
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

-- What the slots have that is idle after what moves (null in a soft budget), and what is spent in them.
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

-- The windows whose own rows the claims need: where they do not go into a lease, or it has not enough for all of them.
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

-- Of each window, after what moves: whether it is hard; how far its limit is above all that is spent and held; what may be
-- granted from its row; what is idle in leases that are no slots; and all that is spent.
create function farebox_figures(
  wins bigint[], m farebox_moves, slot_window integer[], idle bigint[],
  out hard boolean[], out gap bigint[], out room bigint[], out elsewhere bigint[], out spent bigint[]
) language plpgsql as $$
begin
    select
      coalesce(array_agg(b.mode = 'hard' order by x.p), '{}'),
      coalesce(array_agg(case when b.mode = 'hard' then b.amount_limit - all_spent - all_held end order by x.p), '{}'),
      coalesce(array_agg(case when b.mode = 'hard' then b.amount_limit - w.spent - w.held - w.leased - coalesce(d.spent + d.held + d.leased, 0) end order by x.p)::bigint[], '{}'),
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
        (w.held + coalesce(l.held, 0) + coalesce(d.held, 0) + coalesce(dl.held, 0))::bigint as all_held
    ) whole;
end
$$;

-- Enlarges the holds of extensions that were granted.
create function farebox_enlarge_holds(claims jsonb, granted bigint[]) returns void
language plpgsql set enable_nestloop = off as $$
begin
  update charges c set hold = c.hold + granted[e.n]
  from rows from (jsonb_to_recordset(claims) as (op text, id text)) with ordinality e (op, id, n)
  where c.id = any(array(select x.id from jsonb_to_recordset(claims) x (op text, id text) where x.op = 'extend'))
    and c.id = e.id and granted[e.n] > 0 and c.state || '' = 'pending';
end
$$;

-- Writes what was granted: new charges, and larger holds.
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

-- What is answered to each claim: [ok, room], [granted, amount], [not_pending], [looked, room, known], or
-- [short, again, [[window, gap], ...]] with `windows` beside: [budget, subject, starts_at, ends_at, spent] of each.
create function farebox_claim_replies(
  at_least bigint[], wins bigint[], sets integer[], known boolean[], all_spent bigint[], granted bigint[], rest bigint[], short text[], again boolean[]
) returns jsonb language plpgsql as $$
declare
  replies jsonb[] := '{}';
  shown jsonb := '[]';
begin
  for c in 1 .. cardinality(sets) loop
    replies[c] := case
      when at_least[c] is not null and granted[c] is not null then jsonb_build_array('granted', granted[c]::text)
      when at_least[c] is not null and sets[c] is null then jsonb_build_array('not_pending')
      when granted[c] is not null then jsonb_build_array('ok', rest[c]::text)
      when short[c] is not null then jsonb_build_array('short', again[c], ('[' || short[c] || ']')::jsonb)
      else jsonb_build_array('looked', rest[c]::text, known[c])
    end;
  end loop;
  if array_remove(short, null) <> '{}' then
    select jsonb_agg(jsonb_build_array(w.budget, w.subject, w.starts_at, w.ends_at, all_spent[x.p]::text) order by x.p) into shown
    from unnest(wins) with ordinality x (win, p) join budget_windows w on w.seq = x.win;
  end if;
  return jsonb_build_object('claims', to_jsonb(replies), 'windows', shown);
end
$$;

-- Part seven: runs of proxies, and what becomes of those that are over.

-- One beat of a run: takes along what it tells the others, and brings what they told, who lives, and the counter of changes.
-- `is_live` is false where the run was ended by others, who took it for dead: it needs another epoch.
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

-- Moves what is spent in these leases to their windows, and gives back what is idle in them. They are locked first.
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

-- Gives back what a run's leases do not hold.
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

-- Ends a run: it places no hold from now on. Waits for a batch of it that is being applied.
create function farebox_end_owner(run bigint) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock('budgets'::regclass::oid::integer, run::integer);
  update owners set ended_at = clock_timestamp() where epoch = run and ended_at is null;
end
$$;

-- Ends the runs that have been silent for longer than one of their requests may live; how many these were.
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

-- Gives back what leases of windows that are over have, of runs that go on: some of them, and how many these were.
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
