-- Money is integer pico-USD, times are milliseconds since 1970 UTC, booleans are 0 and 1. Token counts are of disjoint classes.

create table meta (
  one integer primary key check (one = 1),
  -- Time zone of windows and days; null until a proxy or command stores it.
  time_zone text,
  -- Raised by each change of keys, budgets or settings, so that a running proxy notices the change.
  changes integer not null default 0,
  -- Start of the first day for which quarter-hour sums remain. For earlier days, only the rollup by days remains.
  quarters_from integer not null default 0,
  -- Time since which charges state users and labels; null if all do.
  users_since integer,
  -- Raised by each transaction that deletes charges or corrects rollups. Sums that were read before cannot be continued with
  -- the charges that were added since.
  sums_version integer not null default 0
) strict;
insert into meta (one) values (1);

-- One row for each start of a proxy. A pending hold of an earlier start has lost its owner.
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
  -- When the current secret was created; null for the first one.
  rotated_at integer,
  -- Digest of the secret before the last rotation, and the time from which that secret is refused.
  previous_digest text,
  previous_valid_until integer,
  models text,
  -- Limits are whole numbers from 1 to 1,000,000,000; null for none.
  rpm integer,
  tpm integer,
  parallel integer,
  -- The most output tokens for each choice that a request may ask for; null for no cap.
  output_cap integer,
  -- Labels of a key, tags and the user that all its requests have, and dimensions that its requests must name; null for none.
  -- Labels and tags are JSON objects, the dimensions a JSON list.
  labels text,
  pinned_tags text,
  pinned_user text,
  requires text,
  created_at integer not null,
  expires_at integer,
  -- Time since which a key is suspended; null if it is not.
  suspended_at integer,
  revoked_at integer
) strict;

create table teams (
  seq integer primary key,
  name text not null unique,
  models text,
  rpm integer,
  tpm integer,
  parallel integer,
  output_cap integer,
  created_at integer not null
) strict;

-- Named tokens of the admin API. Each has one role, and is stored as a digest.
create table admins (
  seq integer primary key,
  id text not null unique,
  name text not null unique,
  role text not null check (role in ('viewer', 'editor')),
  digest text not null unique,
  created_at integer not null,
  expires_at integer,
  revoked_at integer
) strict;

-- One row for each change: who made it, the action, and the object before and after as JSON without secrets. The transaction
-- of the change adds the row. Rows are never changed or deleted.
create table audit_entries (
  id integer primary key autoincrement,
  made_at integer not null,
  made_by text not null,
  action text not null,
  object text not null,
  facts_before text check (facts_before is null or json_valid(facts_before)),
  facts_after text check (facts_after is null or json_valid(facts_after))
) strict;

create trigger audit_entries_never_change before update on audit_entries
begin
  select raise(abort, 'an entry of the audit is never changed');
end;

create trigger audit_entries_never_go before delete on audit_entries
begin
  select raise(abort, 'an entry of the audit is never deleted');
end;

-- The replacement of a row deletes the row without the trigger above.
create trigger audit_entries_never_replaced before insert on audit_entries
when new.id in (select id from audit_entries)
begin
  select raise(abort, 'an entry of the audit is never replaced');
end;

-- Prices in their canonical form. `id` is a digest of the price, so that an audit can check it.
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
  -- The session, key or team that a budget's scope names, by which admissions find it; '' if it names none.
  anchor text not null default '',
  -- In spans that start at this time or later, each subject with charges has its window, so that a new window starts with 0;
  -- null if that is not known.
  complete_from integer,
  -- Time since which a budget on users, tags or labels counts charges, because earlier ones do not state them; null for all
  -- charges.
  counts_since integer,
  -- 1 if the budget has raises, past or present.
  is_raised integer not null default 0,
  unique (scope, period)
) strict;
create index budgets_by_anchor on budgets (anchor);

-- Sums of one budget over one span: of all charges in its scope and span, and of no others.
create table windows (
  seq integer primary key,
  budget integer not null references budgets (seq),
  subject text not null,
  starts_at integer not null,
  ends_at integer,
  spent integer not null check (spent > -9223372036854775807),
  held integer not null check (held >= 0),
  -- Cost of the charges that retention has deleted, for budgets that count by user, tag or label. It is included in `spent`,
  -- because carried sums have no such values.
  carried integer not null default 0,
  unique (budget, subject, starts_at)
) strict;
-- Finds the current windows among all windows that a budget has had.
create index windows_by_start on windows (budget, starts_at, subject);

-- Amounts added to the limit of one window of a budget. A raise is in force from `starts_at`, the start of the window, to before
-- `until`; null for no end.
create table raises (
  seq integer primary key,
  budget integer not null,
  subject text not null,
  amount integer not null check (amount > 0),
  starts_at integer not null,
  until integer,
  why text not null,
  made_at integer not null,
  made_by text not null
) strict;
create index raises_of_window on raises (budget, subject);

-- Requests of keys for a raise of the window that refused them. They lapse with the window, at `lapses_at`.
create table raise_requests (
  seq integer primary key,
  id text not null unique,
  budget integer not null,
  subject text not null,
  key text not null,
  amount integer not null check (amount > 0),
  why text not null,
  made_at integer not null,
  lapses_at integer,
  state text not null check (state in ('open', 'approved', 'denied')),
  decided_at integer,
  decided_by text,
  granted integer,
  until integer
) strict;
create index raise_requests_of_key on raise_requests (key, made_at);
create index raise_requests_open on raise_requests (made_at) where state = 'open';

-- Number of users and tag values for which each key has opened windows for the first time, on its latest day.
create table new_subjects (
  key text primary key,
  day text not null,
  subjects integer not null
) strict, without rowid;

create table charges (
  seq integer primary key,
  id text not null unique,
  kind text not null check (kind in ('request', 'task')),
  state text not null check (state in ('pending', 'posted', 'voided')),
  owner integer not null,
  admitted_at integer not null,
  ended_at integer check ((state = 'pending') = (ended_at is null)),
  -- Values by which budgets and reports count the charge. `labels` are those of the key at that time, as JSON. `end_user` is the
  -- user that the request named. `session` is the session of `farebox run`; null for requests without one. `entry` is the model's
  -- name in the price files; for a pending charge of several models, that of the most expensive one. `entries` has all of them
  -- as JSON until the charge is settled.
  key text not null,
  team text,
  labels text,
  end_user text,
  tags text,
  session text,
  route text not null,
  model text not null,
  entry text,
  entries text,
  served_model text,
  price_group text,
  stream integer not null,
  -- The price of the model, and the price of another model that answered; null if there is none.
  price_id text,
  served_price_id text,
  service_tier text,
  hold integer,
  -- Basis of the hold: the field or bound that decided, the output tokens that it covers, and the maximum that Farebox
  -- injected for a cap or a budget.
  held_by text,
  held_output integer,
  output_cap integer,
  fitted integer,
  cost integer check (state = 'posted' or cost is null),
  list_cost integer check (state = 'posted' or list_cost is null),
  overage integer not null default 0,
  formula text check ((state = 'posted') = (formula is not null)),
  source text check ((state = 'posted') = (source is not null)),
  minimum_applied integer not null default 0,
  clamped integer not null default 0,
  -- Reasons why the amount may differ from the bill, separated by commas, and the cost of a charge with such reasons; of a carried
  -- sum, that of its charges.
  doubts text,
  in_doubt integer not null default 0,
  input integer not null default 0,
  cached_input integer not null default 0,
  cache_write integer not null default 0,
  cache_write_1h integer not null default 0,
  audio_input integer not null default 0,
  image_input integer not null default 0,
  output integer not null default 0,
  reasoning integer not null default 0,
  audio_output integer not null default 0,
  image_output integer not null default 0,
  -- Tokens that were counted exactly, without estimates; null if none were counted.
  delivered_input integer,
  delivered_output integer,
  -- Calls of hosted tools, as JSON.
  tool_calls text,
  status integer,
  reason text,
  gateway_request_id text,
  duration_ms real,
  first_token_ms real,
  -- Number of times that the client's SDK had sent the request before.
  retry integer not null default 0,
  -- For an adjustment: the charge that it corrects, and who made it. `ended_at` is its time, `reason` the reason.
  adjusts text,
  adjusted_by text
) strict;
create index charges_by_time on charges (admitted_at);
create index charges_by_key on charges (key, admitted_at);
create index charges_of_session on charges (session) where session is not null;
create index charges_pending on charges (admitted_at) where state = 'pending';
create index charges_adjusting on charges (adjusts) where adjusts is not null;
create index charges_carried on charges (admitted_at) where route = 'carried';

-- Windows that count a charge: those of its admission, and those that were created while it was pending. Extensions and
-- settlement change exactly these.
create table charge_windows (
  charge integer not null,
  window integer not null,
  primary key (charge, window)
) strict, without rowid;

-- A carried sum is an adjustment at noon of its day. It has the money and tokens of the charges that retention deleted for one key,
-- team, model, group and source, so windows, rollups and lists count it like any other charge. This table has what an adjustment
-- does not state: the number of requests, and how many of them had no price or were retries.
create table carried (
  charge integer primary key references charges (seq),
  requests integer not null,
  unpriced integer not null,
  retries integer not null
) strict;

-- Sums of posted charges, by quarter-hour; '' means none. `entry` is the model's name in the price files. An adjustment moves
-- money and counts as no request.
create table rollup_quarter (
  starts_at integer not null,
  key text not null,
  team text not null,
  model text not null,
  entry text not null,
  price_group text not null,
  source text not null,
  requests integer not null,
  unpriced integer not null,
  retries integer not null,
  input integer not null,
  cached_input integer not null,
  cache_write integer not null,
  cache_write_1h integer not null,
  audio_input integer not null,
  image_input integer not null,
  output integer not null,
  reasoning integer not null,
  audio_output integer not null,
  image_output integer not null,
  cost integer not null check (cost > -9223372036854775807),
  list_cost integer not null,
  in_doubt integer not null,
  primary key (starts_at, key, team, model, entry, price_group, source)
) strict, without rowid;

-- The same sums by days of the stored time zone.
create table rollup_day (
  day text not null,
  key text not null,
  team text not null,
  model text not null,
  entry text not null,
  price_group text not null,
  source text not null,
  requests integer not null,
  unpriced integer not null,
  retries integer not null,
  input integer not null,
  cached_input integer not null,
  cache_write integer not null,
  cache_write_1h integer not null,
  audio_input integer not null,
  image_input integer not null,
  output integer not null,
  reasoning integer not null,
  audio_output integer not null,
  image_output integer not null,
  cost integer not null check (cost > -9223372036854775807),
  list_cost integer not null,
  in_doubt integer not null,
  primary key (day, key, team, model, entry, price_group, source)
) strict, without rowid;

-- Refused requests. Equal refusals of one minute share a row. `id` is a digest of the values that make them equal. `key` is '' for
-- requests without a known key.
create table refusals (
  minute integer not null,
  id text not null,
  key text not null,
  team text,
  route text not null,
  model text,
  code text not null,
  scope text,
  -- The subject of the window that refused; null if the scope has no `each-…`, or no budget refused.
  subject text,
  period text,
  count integer not null,
  first_at integer not null,
  last_at integer not null,
  needed integer,
  primary key (minute, id)
) strict, without rowid;
create index refusals_of_key on refusals (key, minute);
create index refusals_of_team on refusals (team, minute) where team is not null;

-- The gateway's account record at one time, with the ledger's counters before and after the call. `figures` are numbers as the
-- gateway wrote them; the counters are amounts in pico-USD. Both are JSON with numbers as text.
create table account_samples (
  asked_at integer primary key,
  answered_at integer not null,
  account text,
  figures text not null check (json_valid(figures)),
  ledger_before text not null check (json_valid(ledger_before)),
  ledger_after text not null check (json_valid(ledger_after))
) strict;

-- Messages to receivers outside. Each is written before its cause is lost. One proxy sends it until it is delivered or abandoned.
-- A target is a name, so the table contains no address and no secret.
create table outbox (
  seq integer primary key,
  id text not null unique,
  kind text not null,
  -- Null for a message that is only recorded.
  target text,
  -- Equal messages have equal keys, so that only one of them is written.
  dedupe_key text not null unique,
  -- The key is kept until this time, even after the message has ended; null for always.
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

-- Tasks at the gateway. Each belongs to the charge that pays for it. Only its task can end the pending charge of a task in this
-- table. Decimals are text, exactly as the gateway stated them.
create table tasks (
  seq integer primary key,
  task_id text not null unique,
  charge text not null unique,
  -- '' for callers without a key.
  key text not null,
  model text not null,
  task_type text,
  status text not null check (status in ('pending', 'running', 'completed', 'failed', 'cancelled', 'unknown')),
  created_at integer not null,
  started_at integer,
  ended_at integer,
  settled_at integer,
  -- When a client or the poller last read the record.
  seen_at integer not null,
  next_poll_at integer check ((settled_at is null) = (next_poll_at is not null)),
  deadline_at integer not null,
  -- Why it failed, in a few words.
  failure text,
  usage_type text,
  usage_units text check ((usage_type is null) = (usage_units is null)),
  -- Null if the units have no known value in USD.
  units_per_usd text,
  -- Priced quantity: that of the request; after the settlement, that which was charged.
  quantity text
) strict;
create index tasks_due on tasks (next_poll_at) where settled_at is null;
create index tasks_by_key on tasks (key, seq);

-- Callbacks that the gateway was asked for, at most one for each task: the digest of our token, and the client's callback, sealed
-- with a key that is not in this file.
create table task_callbacks (
  charge text primary key,
  digest text not null unique,
  sealed text not null,
  created_at integer not null
) strict;

-- Values that Farebox injected into a request with an idempotency key, so that a retry repeats them. Kept for two days.
create table written_limits (
  idempotency text primary key,
  written text not null,
  written_at integer not null
) strict;
create index written_limits_time on written_limits (written_at);

-- Models whose answers came in bursts, for a key or, with key *, for all: docs/decisions/0013-a-burst-marks-a-model.md.
create table stream_bursts (
  model text not null,
  key text not null,
  burst_at integer not null,
  -- Number of live streams since the burst.
  live integer not null,
  primary key (model, key)
) strict;

-- Open sessions of `farebox run`, kept until they expire. `secret` is the digest of the key's secret that began the session, which
-- ends when that secret is no longer valid; '' if the secret is unknown, so the session is over. `tags` are JSON.
create table run_sessions (
  id text primary key,
  key text not null,
  secret text not null default '',
  tags text not null,
  budget integer,
  created_at integer not null,
  expires_at integer not null,
  ended_at integer
) strict;
create index run_sessions_of_key on run_sessions (key);

-- Secret of the HMAC in credentials of sessions.
create table run_secret (
  id integer primary key check (id = 1),
  secret text not null
) strict;
insert into run_secret (id, secret) values (1, lower(hex(randomblob(32))));

-- Sessions of browsers that are signed in to the dashboard. Digests are SHA-256 in hexadecimal. `holder` is the id of the admin or
-- the key; '' for FAREBOX_ADMIN_TOKEN. `secret` is the digest of the token or key that began the session.
create table dashboard_sessions (
  seq integer primary key,
  digest text not null unique,
  kind text not null,
  holder text not null,
  secret text not null,
  created_at integer not null,
  expires_at integer not null
) strict;
create index dashboard_sessions_of_secret on dashboard_sessions (secret);
