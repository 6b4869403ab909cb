-- Runs of proxies, and what becomes of those that are over.

-- One beat of a run: takes along what it tells the others, and brings what they told, who lives, and the counter of changes.
-- `is_live` is false where the run was ended by others, who took it for dead: it needs another epoch.
create or replace function farebox_beat(
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
create or replace function farebox_fold_leases(l_wins bigint[], l_owners bigint[]) returns void language plpgsql as $$
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
create or replace function farebox_return_leases(run bigint) returns void language plpgsql as $$
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
create or replace function farebox_end_owner(run bigint) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock('budgets'::regclass::oid::integer, run::integer);
  update owners set ended_at = clock_timestamp() where epoch = run and ended_at is null;
end
$$;

-- Ends the runs that have been silent for longer than one of their requests may live; how many these were.
create or replace function farebox_end_dead_owners(besides bigint) returns integer language plpgsql as $$
declare
  run bigint;
  ended integer := 0;
begin
  for run in
    select epoch from owners
    where ended_at is null and epoch is distinct from besides and beat_at < clock_timestamp() - life_ms * interval '1 millisecond' order by epoch
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
create or replace function farebox_tidy_leases(run bigint, over_before bigint, at_once integer) returns integer language plpgsql as $$
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
