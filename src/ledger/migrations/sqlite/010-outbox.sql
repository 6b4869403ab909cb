-- Messages that must reach somebody outside: written no later than their cause is forgotten, sent by the one serve until
-- they are delivered or given up. No address and no secret stands here: a target is a name.
create table outbox (
  seq integer primary key,
  id text not null unique,
  kind text not null,
  -- Null for what nobody is to be told, which is kept for the record.
  target text,
  -- What is the same message has the same key, so that it is written once.
  dedupe_key text not null unique,
  -- Until then the key is remembered, whatever became of the message; null for as long as the ledger lives.
  key_until integer,
  payload text not null,
  created_at integer not null,
  state text not null check (state in ('waiting', 'delivered', 'given_up', 'unsent')),
  tries integer not null default 0,
  next_try_at integer check ((state = 'waiting') = (next_try_at is not null)),
  ended_at integer check ((state = 'waiting') = (ended_at is null)),
  last_error text,
  check ((state = 'unsent') = (target is null))
) strict;
create index outbox_waiting on outbox (target, seq) where state = 'waiting';
create index outbox_ended on outbox (ended_at) where ended_at is not null;

-- The windows that are looked at again and again are those of now, among all that a budget has had.
create index windows_by_start on windows (budget, starts_at, subject);
