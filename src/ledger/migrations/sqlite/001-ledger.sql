-- Money is integer pico-USD, times are milliseconds since 1970 UTC, tokens are disjoint classes.

create table meta (
  one integer primary key check (one = 1),
  time_zone text,
  -- Moves with every change of keys, budgets or settings, so that a running proxy notices it.
  changes integer not null default 0
) strict;
insert into meta (one) values (1);

-- One row for each run of a proxy: a pending hold of another run than the present one has lost its owner.
create table owners (
  epoch integer primary key autoincrement,
  started_at integer not null
) strict;

create table keys (
  seq integer primary key,
  id text not null unique,
  name text not null unique,
  team text,
  digest text not null unique,
  models text,
  created_at integer not null,
  expires_at integer,
  revoked_at integer
) strict;

-- Canonical prices, addressed by their content: all that an audit needs.
create table price_versions (
  id text primary key,
  canonical text not null
) strict, without rowid;

create table budgets (
  seq integer primary key,
  scope text not null,
  period text not null,
  mode text not null check (mode in ('hard', 'soft')),
  amount_limit integer not null,
  warn_percent integer,
  unique (scope, period)
) strict;

-- The sums of one budget over one span: of all charges in its scope and span, and of no other.
create table windows (
  seq integer primary key,
  budget integer not null references budgets (seq),
  subject text not null,
  starts_at integer not null,
  ends_at integer,
  spent integer not null check (spent > -9223372036854775807),
  held integer not null check (held >= 0),
  unique (budget, subject, starts_at)
) strict;

create table charges (
  seq integer primary key,
  id text not null unique,
  kind text not null check (kind in ('request', 'task')),
  state text not null check (state in ('pending', 'posted', 'voided')),
  owner integer not null,
  admitted_at integer not null,
  ended_at integer check ((state = 'pending') = (ended_at is null)),
  key text not null,
  team text,
  route text not null,
  model text not null,
  served_model text,
  price_group text,
  stream integer not null,
  price_id text,
  hold integer,
  cost integer check (state = 'posted' or cost is null),
  list_cost integer check (state = 'posted' or list_cost is null),
  overage integer not null default 0,
  formula text check ((state = 'posted') = (formula is not null)),
  source text check ((state = 'posted') = (source is not null)),
  minimum_applied integer not null default 0,
  clamped integer not null default 0,
  input integer not null default 0,
  cached_input integer not null default 0,
  cache_write integer not null default 0,
  audio_input integer not null default 0,
  image_input integer not null default 0,
  output integer not null default 0,
  reasoning integer not null default 0,
  audio_output integer not null default 0,
  image_output integer not null default 0,
  status integer,
  reason text,
  gateway_request_id text,
  duration_ms real,
  first_token_ms real,
  tags text,
  -- How often the client's SDK had sent the request before.
  retry integer not null default 0,
  -- For an adjustment: the charge that it corrects.
  adjusts text
) strict;
create index charges_by_time on charges (admitted_at);
create index charges_by_key on charges (key, admitted_at);
create index charges_pending on charges (admitted_at) where state = 'pending';

-- The windows that a charge weighs on: those of its admission, and those that were made while it was pending.
-- Extensions and settlement touch exactly these.
create table charge_windows (
  charge integer not null,
  window integer not null,
  primary key (charge, window)
) strict, without rowid;

-- Sums of posted charges; '' stands for none. An adjustment moves the money and counts no request.
create table rollup_quarter (
  starts_at integer not null,
  key text not null,
  team text not null,
  model text not null,
  price_group text not null,
  source text not null,
  requests integer not null,
  unpriced integer not null,
  retries integer not null,
  input integer not null,
  cached_input integer not null,
  cache_write integer not null,
  audio_input integer not null,
  image_input integer not null,
  output integer not null,
  reasoning integer not null,
  audio_output integer not null,
  image_output integer not null,
  cost integer not null check (cost > -9223372036854775807),
  list_cost integer not null,
  primary key (starts_at, key, team, model, price_group, source)
) strict, without rowid;

-- The same by the days of the configured time zone.
create table rollup_day (
  day text not null,
  key text not null,
  team text not null,
  model text not null,
  price_group text not null,
  source text not null,
  requests integer not null,
  unpriced integer not null,
  retries integer not null,
  input integer not null,
  cached_input integer not null,
  cache_write integer not null,
  audio_input integer not null,
  image_input integer not null,
  output integer not null,
  reasoning integer not null,
  audio_output integer not null,
  image_output integer not null,
  cost integer not null check (cost > -9223372036854775807),
  list_cost integer not null,
  primary key (day, key, team, model, price_group, source)
) strict, without rowid;
