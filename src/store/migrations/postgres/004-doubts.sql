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

-- Ends those of the locked charges that are pending as `settles` says, and returns them as they are now. `orphan`: only while no
-- known task pays from it. "assumed" is the hold itself, as the ledger has it: an extension may have been granted without the
-- caller receiving the reply.
create or replace function farebox_end_charges(settles jsonb, ids text[]) returns charges[]
language plpgsql set enable_nestloop = off as $$
declare
  ended charges[];
begin
  with done as (
    update charges c set
      state = g.state, ended_at = g.ended_at, status = g.status, served_model = g.served_model, gateway_request_id = g.gateway_request_id,
      duration_ms = g.duration_ms, first_token_ms = g.first_token_ms, reason = g.reason,
      cost = case when g.formula = 'assumed' then c.hold else g.cost end,
      list_cost = case when g.formula = 'assumed' then c.hold else g.list_cost end,
      overage = case when g.formula <> 'assumed' and g.cost > c.hold then g.cost - c.hold else 0 end,
      formula = g.formula, source = g.source,
      minimum_applied = coalesce(g.minimum_applied, 0), clamped = coalesce(g.clamped, 0),
      served_price_id = g.served_price_id, service_tier = g.service_tier, tool_calls = g.tool_calls, doubts = g.doubts,
      delivered_input = g.delivered_input, delivered_output = g.delivered_output,
      in_doubt = case when g.doubts is not null then coalesce(case when g.formula = 'assumed' then c.hold else g.cost end, 0) else 0 end,
      input = coalesce(g.tokens[1], 0), cached_input = coalesce(g.tokens[2], 0), cache_write = coalesce(g.tokens[3], 0),
      cache_write_1h = coalesce(g.tokens[4], 0), audio_input = coalesce(g.tokens[5], 0), image_input = coalesce(g.tokens[6], 0),
      output = coalesce(g.tokens[7], 0), reasoning = coalesce(g.tokens[8], 0), audio_output = coalesce(g.tokens[9], 0),
      image_output = coalesce(g.tokens[10], 0)
    from jsonb_to_recordset(settles) g (
      id text, orphan boolean, state text, ended_at bigint, status bigint, served_model text, gateway_request_id text,
      duration_ms double precision, first_token_ms double precision, reason text, cost bigint, list_cost bigint, formula text,
      source text, minimum_applied bigint, clamped bigint, tokens bigint[], served_price_id text, service_tier text, tool_calls text,
      doubts text, delivered_input bigint, delivered_output bigint
    )
    -- Found by their ids alone: the plan must not go by way of all that is pending, or of all of a time.
    where c.id = any(ids) and c.id = g.id and c.state || '' = 'pending'
      and not (coalesce(g.orphan, false) and exists (select from tasks where tasks.charge = g.id))
    returning c as charge
  )
  select coalesce(array_agg(charge), '{}') into ended from done;
  if exists (select from unnest(ended) e where e.state = 'posted' and ((e.cost is null) <> (e.formula = 'unpriced') or e.cost < 0)) then
    raise exception 'only an unpriced charge has no cost, and no cost is below zero';
  end if;
  return ended;
end
$$;

-- Adds posted charges to the rollups, each row once and in the order of their keys. Each proxy writes rows of its own shard.
-- `days`: [{day, starts_at, ends_at}], all that they are of.
create or replace function farebox_roll_up(days jsonb, ended charges[], own_shard bigint) returns void language plpgsql as $$
begin
  insert into rollup_quarter as r (
    starts_at, key, team, model, price_group, source, shard, requests, unpriced, retries, input, cached_input, cache_write,
    cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, cost, list_cost, in_doubt
  )
  select c.admitted_at - c.admitted_at % 900000, c.key, coalesce(c.team, ''), c.model, coalesce(c.price_group, ''), c.source, own_shard,
    count(*), count(*) filter (where c.cost is null), count(*) filter (where c.retry > 0),
    coalesce(sum(c.input), 0), coalesce(sum(c.cached_input), 0), coalesce(sum(c.cache_write), 0),
    coalesce(sum(c.cache_write_1h), 0), coalesce(sum(c.audio_input), 0), coalesce(sum(c.image_input), 0),
    coalesce(sum(c.output), 0), coalesce(sum(c.reasoning), 0), coalesce(sum(c.audio_output), 0),
    coalesce(sum(c.image_output), 0), coalesce(sum(c.cost), 0), coalesce(sum(c.list_cost), 0), coalesce(sum(c.in_doubt), 0)
  from unnest(ended) c where c.state = 'posted'
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (starts_at, key, team, model, price_group, source, shard) do update set
    requests = r.requests + excluded.requests, unpriced = r.unpriced + excluded.unpriced,
    retries = r.retries + excluded.retries, input = r.input + excluded.input,
    cached_input = r.cached_input + excluded.cached_input, cache_write = r.cache_write + excluded.cache_write,
    cache_write_1h = r.cache_write_1h + excluded.cache_write_1h, audio_input = r.audio_input + excluded.audio_input,
    image_input = r.image_input + excluded.image_input, output = r.output + excluded.output,
    reasoning = r.reasoning + excluded.reasoning, audio_output = r.audio_output + excluded.audio_output,
    image_output = r.image_output + excluded.image_output, cost = r.cost + excluded.cost,
    list_cost = r.list_cost + excluded.list_cost, in_doubt = r.in_doubt + excluded.in_doubt;

  insert into rollup_day as r (
    day, key, team, model, price_group, source, shard, requests, unpriced, retries, input, cached_input, cache_write,
    cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, cost, list_cost, in_doubt
  )
  select d.day, c.key, coalesce(c.team, ''), c.model, coalesce(c.price_group, ''), c.source, own_shard,
    count(*), count(*) filter (where c.cost is null), count(*) filter (where c.retry > 0),
    coalesce(sum(c.input), 0), coalesce(sum(c.cached_input), 0), coalesce(sum(c.cache_write), 0),
    coalesce(sum(c.cache_write_1h), 0), coalesce(sum(c.audio_input), 0), coalesce(sum(c.image_input), 0),
    coalesce(sum(c.output), 0), coalesce(sum(c.reasoning), 0), coalesce(sum(c.audio_output), 0),
    coalesce(sum(c.image_output), 0), coalesce(sum(c.cost), 0), coalesce(sum(c.list_cost), 0), coalesce(sum(c.in_doubt), 0)
  from jsonb_to_recordset(days) d (day text, starts_at bigint, ends_at bigint)
  join unnest(ended) c on c.admitted_at >= d.starts_at and c.admitted_at < d.ends_at
  where c.state = 'posted'
  group by 1, 2, 3, 4, 5, 6 order by d.day collate "C", 2, 3, 4, 5, 6
  on conflict (day, key, team, model, price_group, source, shard) do update set
    requests = r.requests + excluded.requests, unpriced = r.unpriced + excluded.unpriced,
    retries = r.retries + excluded.retries, input = r.input + excluded.input,
    cached_input = r.cached_input + excluded.cached_input, cache_write = r.cache_write + excluded.cache_write,
    cache_write_1h = r.cache_write_1h + excluded.cache_write_1h, audio_input = r.audio_input + excluded.audio_input,
    image_input = r.image_input + excluded.image_input, output = r.output + excluded.output,
    reasoning = r.reasoning + excluded.reasoning, audio_output = r.audio_output + excluded.audio_output,
    image_output = r.image_output + excluded.image_output, cost = r.cost + excluded.cost,
    list_cost = r.list_cost + excluded.list_cost, in_doubt = r.in_doubt + excluded.in_doubt;
end
$$;
