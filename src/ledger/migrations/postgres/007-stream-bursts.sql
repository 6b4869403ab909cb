-- Models whose answers came at once, for a key or, with key *, for all: docs/decisions/0013-a-burst-marks-a-model.md.
create table stream_bursts (
  model text collate "C" not null,
  key text collate "C" not null,
  burst_at bigint not null,
  -- Streams that came live since.
  live bigint not null,
  primary key (model, key)
);
