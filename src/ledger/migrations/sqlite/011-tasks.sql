-- Tasks at the gateway, each beside the charge that pays for it. A pending charge of a task that has a row here is ended by
-- its task alone. Decimals are text, exactly as the gateway stated them.
create table tasks (
  seq integer primary key,
  task_id text not null unique,
  charge text not null unique,
  -- Who owns it; '' for callers without a key.
  key text not null,
  model text not null,
  task_type text,
  status text not null check (status in ('pending', 'running', 'completed', 'failed', 'cancelled', 'unknown')),
  created_at integer not null,
  started_at integer,
  ended_at integer,
  settled_at integer,
  -- When its record was last read, by a client or by the poller.
  seen_at integer not null,
  next_poll_at integer check ((settled_at is null) = (next_poll_at is not null)),
  deadline_at integer not null,
  -- Why it failed, one of a few words.
  failure text,
  usage_type text,
  usage_units text check ((usage_type is null) = (usage_units is null)),
  -- Null where the units stay raw.
  units_per_usd text,
  -- How many of what its price is for: of the request, and once settled of what was charged.
  quantity text
) strict;
create index tasks_due on tasks (next_poll_at) where settled_at is null;
create index tasks_by_key on tasks (key, seq);
