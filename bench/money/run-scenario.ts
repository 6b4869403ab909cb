import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatUsd, noMoney, usd, type PicoUsd } from "../../src/core/money.ts";
import { isUnknown, shareOf } from "./amounts.ts";
import { Gateway, type GatewayState } from "./gateway-process.ts";
import { Clients, labelOf, type Outcome } from "./load.ts";
import type { Mode, Peer, RunningPeer, ScenarioName, Unknown } from "./peer.ts";
import type { AtKill, Comparison, Figures, Result } from "./result.ts";
import { prices, scenarios, type Scenario, type World } from "./scenarios.ts";

/** Longest duration of a scenario, including the start of its peer, in milliseconds. */
const limitMs = 240_000;
/** Longest wait until the gateway has no open request, in milliseconds. */
const quietMs = 60_000;

interface Run {
  readonly peer: Peer;
  readonly mode: Mode;
  readonly name: ScenarioName;
  /** Folder in which peers are installed. */
  readonly programs: string;
}

/** Runs a scenario on a new peer with an empty ledger, in front of a new gateway. A failure becomes an unknown figure. */
export async function runScenario({ peer, mode, name, programs }: Run): Promise<Result> {
  const startedAt = performance.now();
  const reason = peer.unknown[name];
  const figures =
    reason === undefined ? await measured({ peer, mode, name, programs }) : ({ unknown: reason } satisfies Unknown);
  return { peer: peer.name, mode, scenario: name, figures, seconds: Math.round(performance.now() - startedAt) / 1000 };
}

async function measured({ peer, mode, name, programs }: Run): Promise<Figures | Unknown> {
  const scenario = scenarios[name];
  const folder = await mkdtemp(join(tmpdir(), "farebox-money-"));
  await using owned = new AsyncDisposableStack();
  owned.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  const timer = Promise.withResolvers<never>();
  const timeout = setTimeout(() => timer.reject(new Error(`no result after ${limitMs / 1000} s`)), limitMs);
  owned.defer(() => clearTimeout(timeout));
  try {
    const gateway = owned.use(await Gateway.start(prices));
    const running = peer.start({
      gatewayUrl: gateway.url,
      gatewayKey: gateway.key,
      budget: scenario.budget,
      prices,
      mode,
      folder,
      programs,
    });
    const started = await Promise.race([running, timer.promise]);
    owned.defer(() => started.stop());
    return await Promise.race([figuresOf(scenario, gateway, started, peer.ledgerLagMs), timer.promise]);
  } catch (error) {
    return { unknown: `the run failed: ${error instanceof Error ? error.message : String(error)}` };
  }
}

async function figuresOf(scenario: Scenario, gateway: Gateway, peer: RunningPeer, lagMs: number): Promise<Figures> {
  using clients = new Clients();
  const outcomes: Outcome[] = [];
  const waiting: (() => void)[] = [];
  let checkpoint: Comparison | null = null;
  let atKill: AtKill | null = null;
  let turn = 0;
  const world: World = {
    gateway,
    peer,
    answered: (count, limitMs) => reached(waiting, () => outcomes.length, count, limitMs),
    async killAndRestart() {
      const ended = outcomes.length;
      const restarted = peer.restart();
      const { requests, deltas } = await gateway.state();
      atKill = { requests, deltas, ended };
      await restarted;
    },
    send: (requests, path = "/v1/chat/completions") =>
      Promise.all(
        requests.map(async (request) => {
          const base = peer.baseUrls[turn++ % peer.baseUrls.length] ?? "";
          const answer = await clients.send({
            ...request,
            url: base.replace(/\/v1$/, path),
            headers: { authorization: `Bearer ${peer.key}` },
          });
          outcomes.push(answer);
          for (const check of waiting) check();
          return answer;
        }),
      ),
    checkpoint: async () => void (checkpoint = await compare(gateway, peer, lagMs)),
  };
  await scenario.run(world);
  const comparison = await compare(gateway, peer, lagMs);
  const limit = limitFigures(scenario, await gateway.state(), outcomes);
  return { ...comparison, checkpoint, ...(atKill === null ? {} : { atKill }), ...limit };
}

/** Resolves when `count` clients have their answers. Throws an error after the time limit. */
async function reached(waiting: (() => void)[], ended: () => number, count: number, limitMs: number): Promise<void> {
  const done = Promise.withResolvers<void>();
  const fail = () =>
    done.reject(new Error(`only ${ended()} of ${count} clients had answers within ${limitMs / 1000} s`));
  const timer = setTimeout(fail, limitMs);
  waiting.push(() => ended() >= count && done.resolve());
  await done.promise.finally(() => clearTimeout(timer));
}

/**
 * Compares the bill with the peer's ledger. Waits until the gateway has no open request, and until the ledger equals the bill
 * or the ledger's lag is over. Throws an error if a request stays open.
 */
async function compare(gateway: Gateway, peer: RunningPeer, lagMs: number): Promise<Comparison> {
  const state = await gateway.until({ open: 0 }, quietMs);
  const billed = BigInt(state.billed) as PicoUsd;
  const recorded = await settledSpend(peer, billed, lagMs);
  const billedUsd = formatUsd(billed);
  if (isUnknown(recorded)) return { billedUsd, recordedUsd: recorded, recordedPercent: recorded };
  return { billedUsd, recordedUsd: formatUsd(recorded), recordedPercent: shareOf(recorded, billed) };
}

async function settledSpend(peer: RunningPeer, billed: PicoUsd, lagMs: number): Promise<PicoUsd | Unknown> {
  const endsAt = performance.now() + lagMs;
  for (;;) {
    const recorded = await peer.spend();
    if (isUnknown(recorded) || recorded === billed || performance.now() > endsAt) return recorded;
    await new Promise((resolve) => setTimeout(resolve, Math.min(250, lagMs)));
  }
}

export function limitFigures(
  { budget, requestUsd }: Pick<Scenario, "budget" | "requestUsd">,
  state: Pick<GatewayState, "billed" | "requests">,
  outcomes: readonly Outcome[],
): Omit<Figures, keyof Comparison | "checkpoint" | "atKill"> {
  const limit = usd(budget);
  const billed = BigInt(state.billed) as PicoUsd;
  const refused = outcomes.filter(({ status }) => status !== null && status > 399 && status < 500).length;
  const rest = billed < limit ? limit - billed : 0n;
  const counts: Record<string, number> = {};
  for (const label of outcomes.map(labelOf).toSorted()) counts[label] = (counts[label] ?? 0) + 1;
  return {
    limitUsd: formatUsd(limit),
    billedPercentOfLimit: shareOf(billed, limit) ?? 0,
    exceededByUsd: formatUsd(billed > limit ? ((billed - limit) as PicoUsd) : noMoney),
    sent: outcomes.length,
    letThrough: state.requests,
    refused,
    refusedThatWouldHaveFit: requestUsd === null ? null : Math.min(refused, Number(rest / usd(requestUsd))),
    told: counts,
  };
}
