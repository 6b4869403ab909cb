-- Refused requests. Equal refusals of one minute share a row. `id` is a digest of what makes them equal. Money is in
-- pico-USD; `key` is '' for requests without a known key.
create table refusals (
  minute bigint not null,
  id text collate "C" not null,
  key text collate "C" not null,
  team text collate "C",
  route text collate "C" not null,
  model text collate "C",
  code text collate "C" not null,
  scope text collate "C",
  period text collate "C",
  count bigint not null,
  first_at bigint not null,
  last_at bigint not null,
  needed bigint,
  primary key (minute, id)
);
create index refusals_of_key on refusals (key, minute, id);
create index refusals_of_team on refusals (team, minute, id) where team is not null;
