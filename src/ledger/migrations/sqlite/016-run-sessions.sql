-- The session of `farebox run` that a charge was made in; null for the others.
alter table charges add column session text;
create index charges_of_session on charges (session) where session is not null;

-- Sessions that keys have begun, until they expire. Money is in pico-USD; `tags` are JSON.
create table run_sessions (
  id text primary key,
  key text not null,
  tags text not null,
  budget integer,
  created_at integer not null,
  expires_at integer not null,
  ended_at integer
) strict;
create index run_sessions_of_key on run_sessions (key);

-- The key of the HMAC in credentials of sessions.
create table run_secret (
  id integer primary key check (id = 1),
  secret text not null
) strict;
insert into run_secret (id, secret) values (1, lower(hex(randomblob(32))));
