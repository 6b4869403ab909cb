-- The most output tokens for each choice that a request may ask for; null for no cap.
alter table keys add column output_cap integer;
alter table teams add column output_cap integer;
-- What the hold was computed from: the field or bound that decided, the output tokens that it covers, and the maximum that a cap
-- or a budget wrote into the request.
alter table charges add column held_by text;
alter table charges add column held_output integer;
alter table charges add column output_cap integer;
alter table charges add column fitted integer;

-- What was written into a request with an idempotency key, so that a retry repeats it. Kept for two days.
create table written_limits (
  idempotency text primary key,
  written text not null,
  written_at integer not null
) strict;
create index written_limits_time on written_limits (written_at);
