import { usdNumber } from "../core/money.ts";
import { hasApiKey, sendJson, type Call } from "./call.ts";
import { pause } from "./pause.ts";
import { faultOf, serveFault } from "./faults.ts";
import { numberOf } from "./scenarios.ts";

/**
 * Serves `GET /account/info`: the whole account record. The balance falls as calls are billed.
 */
export async function serveAccount(call: Call): Promise<void> {
  const { options } = call.shared;
  if (!hasApiKey(call)) return undefined;
  if (!(await pause(numberOf(call.scenario, "latency") ?? options.latencyMs, call.gone))) return undefined;
  const fault = faultOf(call.scenario, call.redirects);
  if (fault !== undefined) return serveFault(call, fault);
  const balance = usdNumber(call.shared.billing.balance);
  const record: Record<string, unknown> = accountRecord(call);
  const answer: Record<string, unknown> = { code: 200, data: record, message: "success" };
  const places: Readonly<Record<string, unknown>> = {
    data: record,
    root: answer,
    wallet: record["wallet"],
    credit_pack_info: record["credit_pack_info"],
  };
  Object.assign(places[options.equivalentInUsd] ?? {}, { equivalent_in_usd: balance });
  return sendJson(call, 200, answer);
}

/** Largest numbers of parallel tasks: of all tasks, and of each family. */
export const sandboxCeilings = { all: 20, suno: 3, luma: 3, kling: 3, flux: 10 } as const;

const accountId = 40_213;
const created = "2026-01-12T09:30:00.000Z";
const timestamps = { created_at: created, updated_at: created, deleted_at: null };

/** Converts an amount to credits. A credit is a ten-millionth of a US dollar, the gateway's unit for chat use. */
function credits(amount: bigint): number {
  return Number(amount / 100_000n);
}

function accountRecord(call: Call): Record<string, unknown> {
  const { billing, options } = call.shared;
  const total = credits(billing.account.credited);
  const remaining = credits(billing.balance);
  const frozen = credits(billing.account.frozen);
  const expired = credits(billing.account.expired);
  const sums = { total, remaining, frozen, expired, used: total - remaining - frozen - expired };
  return {
    id: accountId,
    ...timestamps,
    updated_at: new Date(options.now()).toISOString(),
    name: "sandbox",
    is_enable: true,
    platform: "",
    account_group: "default",
    plan: "creator",
    type: "ppu",
    is_using_private_chat_gpt_pool: false,
    is_using_private_suno_pool: false,
    is_using_private_luma_pool: false,
    is_using_private_kling_pool: false,
    api_key: options.apiKey,
    private_pool_size: 0,
    private_chat_gpt_pool_size: 0,
    private_suno_pool_size: 0,
    private_luma_pool_size: 0,
    private_kling_pool_size: 0,
    max_concurrent_task_count: sandboxCeilings.all,
    max_suno_concurrency: sandboxCeilings.suno,
    max_luma_concurrency: sandboxCeilings.luma,
    max_kling_concurrency: sandboxCeilings.kling,
    max_flux_concurrency: sandboxCeilings.flux,
    is_verified: true,
    wallet: wallet(sums),
    account_tags: [],
    account_mj_bot_group_relations: [
      { id: 1, ...timestamps, account_id: accountId, mj_bot_group_id: 7, is_current_group: true, type: "member" },
    ],
    account_mj_worker_node_group_relations: [
      { id: 1, ...timestamps, account_id: accountId, mj_worker_node_group_id: 3 },
    ],
    notification_hook_url: "https://hooks.example.com/gateway?token=hook-secret",
    auto_challenge_mj_verification: true,
    mj_failover_enabled: false,
    luma_failover_enabled: false,
    skip_suno_flagged_account: false,
    credit_pack_info: creditPackInfo(sums),
  };
}

interface Sums {
  readonly total: number;
  readonly remaining: number;
  readonly frozen: number;
  readonly expired: number;
  readonly used: number;
}

function wallet({ remaining, frozen, used }: Sums): Record<string, unknown> {
  const counters = (name: string) => ({ [`${name}_remain`]: 0, [`${name}_frozen`]: 0, [`${name}_used`]: 0 });
  return {
    id: 39_877,
    account_id: accountId,
    ...timestamps,
    legacy_credit_updated: true,
    credit_packs: null,
    credit_remain: remaining,
    credit_used: used,
    credit_frozen: frozen,
    ...counters("point"),
    ...counters("mj"),
    ...counters("sd"),
    ...counters("gpts"),
    ...counters("suno"),
    ...counters("luma"),
    llm_remain: 0,
    llm_used: used,
    auto_recharge_enabled: false,
    auto_recharge_platform: "",
    auto_recharge_threshold_credit: 0,
    auto_recharge_target_credit: 0,
    last_auto_recharge_triggered_at: 0,
  };
}

function creditPackInfo({ total, remaining, frozen, expired, used }: Sums): Record<string, unknown> {
  const pack = {
    id: 1,
    wallet_id: 39_877,
    account_id: accountId,
    active: true,
    capacity: total,
    frozen,
    used,
    effective_at: created,
    expired_at: "2027-01-12T09:30:00.000Z",
    description: "prepaid",
  };
  return {
    credit_packs_count: 1,
    total_credits: total,
    frozen_credits: frozen,
    used_credits: used,
    expired_credits: expired,
    inactive_credits: 0,
    available_credits: remaining,
    credit_packs: [pack],
  };
}
