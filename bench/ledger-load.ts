import type { Caller } from "../src/core/scope.ts";
import { costOf } from "../src/core/cost.ts";
import { usd } from "../src/core/money.ts";
import { canonicalPrice } from "../src/core/price.ts";
import { noTokens } from "../src/core/usage.ts";
import type { Ledger, Posting } from "../src/ports/ledger.ts";
import { contentId } from "../src/wire/content-id.ts";
import { priceOf } from "./prices.ts";
import { percentile, sortedCopy } from "./statistics.ts";

/** Load on the ledger alone. Each loop places a hold, posts it, and continues without waiting for the settlement. */
export interface LedgerLoad {
  readonly inFlight: number;
  readonly seconds: number;
  /** Callers of the requests, in turn. */
  readonly callers: readonly Caller[];
  /** Prefix of each id. It keeps the ids of several processes distinct. */
  readonly prefix: string;
}

export interface LedgerSample {
  readonly seconds: number;
  readonly admitted: number;
  readonly refused: number;
  /** Median time until a hold is durable, in microseconds. */
  readonly p50Us: number;
  readonly p99Us: number;
}

const amount = usd("0.01");
const version = priceOf(0);
const canonical = canonicalPrice(version);
const price = { id: contentId(canonical), canonical };
const tokens = { ...noTokens, input: 100, output: 50 };
const { charged, list, minimumApplied } = costOf(version, tokens);
const posting = {
  kind: "post",
  cost: charged,
  listCost: list,
  tokens,
  formula: "tokens",
  source: "reported",
  minimumApplied,
  clamped: false,
  reason: null,
} as const satisfies Posting;

let count = 0;

/** Runs the load. Throws an error if a hold or a settlement fails. */
export async function drive(ledger: Ledger, { inFlight, seconds, callers, prefix }: LedgerLoad): Promise<LedgerSample> {
  const times: number[] = [];
  const settling: Promise<boolean>[] = [];
  let [admitted, refused] = [0, 0];
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1000;
  const loop = async () => {
    while (performance.now() < endsAt) {
      const index = count++;
      const at = Date.now();
      const id = `${prefix}${at.toString(16).padStart(12, "0")}-${index.toString(16).padStart(8, "0")}`;
      const caller = callers[index % callers.length];
      if (caller === undefined) throw new Error("no callers");
      const from = performance.now();
      const held = await ledger.hold({
        id,
        kind: "request",
        at,
        caller,
        route: "/v1/chat/completions",
        model: version.model,
        group: version.group,
        stream: false,
        price,
        amount,
        bounded: true,
        tags: {},
        retry: 0,
      });
      times.push((performance.now() - from) * 1000);
      if (held.ok) {
        admitted++;
        const end = {
          at: Date.now(),
          status: 200,
          servedModel: version.model,
          gatewayRequestId: `chatcmpl-${index}`,
          durationMs: 1,
          firstTokenMs: null,
        };
        settling.push(ledger.post(id, posting, end).then((posted) => posted.ok));
      } else if (held.reason === "no_room") refused++;
      else throw new Error(`a hold failed: ${held.reason}`);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
  if ((await Promise.all(settling)).includes(false)) throw new Error("a settlement failed");
  const sorted = sortedCopy(times);
  return {
    seconds: (performance.now() - startedAt) / 1000,
    admitted,
    refused,
    p50Us: percentile(sorted, 0.5),
    p99Us: percentile(sorted, 0.99),
  };
}
