-- Models whose answers came at once, for a key or, with key *, for all: docs/decisions/0013-a-burst-marks-a-model.md.
create table stream_bursts (
  model text not null,
  key text not null,
  burst_at integer not null,
  -- Streams that came live since.
  live integer not null,
  primary key (model, key)
) strict;
