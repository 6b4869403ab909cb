-- What few charges have: the price of another model that answered, the service tier, calls of hosted tools as JSON, why the amount
-- may differ from the bill, and the tokens that were plainly counted, apart from estimates (null in rows of earlier versions).
alter table charges
  add column cache_write_1h bigint not null default 0,
  add column served_price_id text collate "C",
  add column service_tier text collate "C",
  add column tool_calls text collate "C",
  add column doubts text collate "C",
  add column delivered_input bigint,
  add column delivered_output bigint,
  -- The cost of a charge with doubts; of a carried sum what its charges had.
  add column in_doubt bigint not null default 0;

alter table rollup_quarter add column cache_write_1h bigint not null default 0, add column in_doubt bigint not null default 0;
alter table rollup_day add column cache_write_1h bigint not null default 0, add column in_doubt bigint not null default 0;
