import { usd, type PicoUsd } from "../src/core/money.ts";
import { noTokens } from "../src/core/tokens.ts";
import type { Caller } from "../src/core/budget.ts";
import type { Ledger, Posting } from "../src/ports/ledger.ts";
import { percentile, sortedCopy } from "./statistics.ts";

/** How the ledger alone is driven: each of so many loops places a hold, posts it, and goes on with the next caller. */
export interface LedgerLoad {
  readonly inFlight: number;
  readonly seconds: number;
  /** In turn. */
  readonly callers: readonly Caller[];
  /** Before each id, so that several processes do not meet. */
  readonly prefix: string;
}

export interface LedgerSample {
  readonly seconds: number;
  readonly admitted: number;
  readonly refused: number;
  /** Of `hold`, until it is durable. Microseconds. */
  readonly p50Us: number;
  readonly p99Us: number;
}

const amount = usd("0.01");
const posting = {
  kind: "post", cost: usd("0.0005"), listCost: usd("0.001"), tokens: { ...noTokens, input: 100, output: 50 }, formula: "tokens", source: "reported",
  minimumApplied: false, clamped: false, reason: null,
} as const satisfies Posting;

let count = 0;

/** Throws where a hold was not written, or a settlement not taken. */
export async function drive(ledger: Ledger, { inFlight, seconds, callers, prefix }: LedgerLoad): Promise<LedgerSample> {
  const times: number[] = [];
  let [admitted, refused] = [0, 0];
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1000;
  const loop = async () => {
    while (performance.now() < endsAt) {
      const index = count++;
      const at = Date.now();
      const id = `${prefix}${at.toString(16).padStart(12, "0")}-${index.toString(16).padStart(8, "0")}`;
      const caller = callers[index % callers.length];
      if (caller === undefined) throw new Error("there are callers");
      const from = performance.now();
      const held = await ledger.hold({
        id, kind: "request", at, caller, route: "/v1/chat/completions", model: "gpt-4o", group: "large-general", stream: false, price: null, amount: amount as PicoUsd, bounded: true,
        tags: {}, retry: 0,
      });
      times.push((performance.now() - from) * 1000);
      if (held.ok) {
        admitted++;
        const posted = await ledger.post(id, posting, { at: Date.now(), status: 200, servedModel: "gpt-4o", gatewayRequestId: `chatcmpl-${index}`, durationMs: 1, firstTokenMs: null });
        if (!posted.ok) throw new Error(`a settlement was not taken: ${JSON.stringify(posted)}`);
      } else if (held.reason === "no_room") refused++;
      else throw new Error(`a hold was not written: ${held.reason}`);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
  const sorted = sortedCopy(times);
  return { seconds: (performance.now() - startedAt) / 1000, admitted, refused, p50Us: percentile(sorted, 0.5), p99Us: percentile(sorted, 0.99) };
}
