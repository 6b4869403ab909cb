-- What few charges have: the price of another model that answered, the service tier, calls of hosted tools as JSON, why the amount
-- may differ from the bill, and the tokens that were plainly counted, apart from estimates (null in rows of earlier versions).
alter table charges add column cache_write_1h integer not null default 0;
alter table charges add column served_price_id text;
alter table charges add column service_tier text;
alter table charges add column tool_calls text;
alter table charges add column doubts text;
alter table charges add column delivered_input integer;
alter table charges add column delivered_output integer;
-- The cost of a charge with doubts; of a carried sum what its charges had.
alter table charges add column in_doubt integer not null default 0;

alter table rollup_quarter add column cache_write_1h integer not null default 0;
alter table rollup_quarter add column in_doubt integer not null default 0;
alter table rollup_day add column cache_write_1h integer not null default 0;
alter table rollup_day add column in_doubt integer not null default 0;
