-- Callbacks that the gateway was asked for, one a task at most: how ours is known again, and what the client's was. The
-- token is a digest and the rest is sealed with a key that is not in this file.
create table task_callbacks (
  charge text primary key,
  digest text not null unique,
  sealed text not null,
  created_at integer not null
) strict;
