-- The session of `farebox run` that a charge was made in; null for the others.
alter table charges add column session text collate "C";
create index charges_of_session on charges (session) where session is not null;

-- Sessions that keys have begun, until they expire. Money is in pico-USD; `tags` are JSON.
create table run_sessions (
  id text collate "C" primary key,
  key text collate "C" not null,
  tags text collate "C" not null,
  budget bigint,
  created_at bigint not null,
  expires_at bigint not null,
  ended_at bigint
);
create index run_sessions_of_key on run_sessions (key);

-- The key of the HMAC in credentials of sessions.
create table run_secret (
  id bigint primary key check (id = 1),
  secret text collate "C" not null
);
insert into run_secret (id, secret) values (
  1,
  encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex')
);
