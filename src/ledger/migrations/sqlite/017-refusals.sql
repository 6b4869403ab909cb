-- Refused requests. Equal refusals of one minute share a row. `id` is a digest of what makes them equal. Money is in
-- pico-USD; `key` is '' for requests without a known key.
create table refusals (
  minute integer not null,
  id text not null,
  key text not null,
  team text,
  route text not null,
  model text,
  code text not null,
  scope text,
  period text,
  count integer not null,
  first_at integer not null,
  last_at integer not null,
  needed integer,
  primary key (minute, id)
) strict, without rowid;
create index refusals_of_key on refusals (key, minute);
create index refusals_of_team on refusals (team, minute) where team is not null;
