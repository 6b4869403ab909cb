-- The most output tokens for each choice that a request may ask for; null for no cap.
alter table keys add column output_cap bigint;
alter table teams add column output_cap bigint;
-- What the hold was computed from: the field or bound that decided, the output tokens that it covers, and the maximum that a cap
-- or a budget wrote into the request.
alter table charges
  add column held_by text collate "C",
  add column held_output bigint,
  add column output_cap bigint,
  add column fitted bigint;

-- What was written into a request with an idempotency key, so that a retry repeats it. Kept for two days.
create table written_limits (
  idempotency text collate "C" primary key,
  written text collate "C" not null,
  written_at bigint not null
);
create index written_limits_time on written_limits (written_at);
