-- Amounts added to the limit of one window of a budget. A raise is in force from `starts_at`, the start of the window, to before
-- `until`; null for no end. Money is in pico-USD.
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

-- 1 if the budget has raises, past or present.
alter table budgets add column is_raised integer not null default 0;

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
