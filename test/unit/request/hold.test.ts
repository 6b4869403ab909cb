import { everyRequest } from "../../../src/core/scope.ts";
import { expect, it, vi } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { shippedPrices } from "../../../src/server/package.ts";
import { usd } from "../../../src/core/money.ts";
import type { HoldResult, Ledger } from "../../../src/ports/ledger.ts";
import { placeHold } from "../../../src/request/hold.ts";
import { Pricer } from "../../../src/request/price.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { readChatRequest } from "../../../src/wire/endpoints/chat-completions.ts";

const clock = systemClock();
const limit = usd("0.01");

/**
 * Returns how often the prompt was counted, and whether the request is held. It costs up to 0.005 USD for output, and
 * for the prompt 0.025 USD, or 0.0025 USD once that is counted.
 */
async function countsWhere(sums: {
  readonly spent: string;
  readonly held: string;
}): Promise<{ counted: number; code: string }> {
  const loaded = await loadCatalogue({ shipped: shippedPrices });
  if (!loaded.ok) throw new Error("the shipped prices have faults");
  const count = vi.fn(async () => ({ ok: true, tokens: 2000 }) as const);
  const pricer = new Pricer({
    catalogue: () => loaded.catalogue,
    tokens: { prepare: () => {}, countText: count, countTexts: count, countChat: count },
    unpriced: "record",
    sliceTokens: 1024,
    toolCalls: 4,
    fitTokensMin: null,
  });
  const budget = {
    id: "all 1d",
    scope: everyRequest,
    period: "1d",
    mode: "hard",
    limit,
    warnPercent: null,
  } as const;
  const [spent, held] = [usd(sums.spent), usd(sums.held)];
  const window = { budget, subject: "", start: 0, end: 1, spent, held, raises: [] };
  const hold = async ({ amount }: { amount: bigint | null }): Promise<HoldResult> => {
    const needed = (amount ?? 0n) as typeof limit;
    if (spent + held + needed <= limit) return { ok: true, room: null, keyRoom: null };
    return { ok: false, reason: "no_room", shortage: { window, needed, exhausted: spent + needed > limit } };
  };
  const deps = {
    ledger: { hold } as unknown as Ledger,
    pricer,
    budgetNames: async () => ({ scopeName: "all", subjectName: null }),
    ownView: "own",
  } as const;
  const body = Buffer.from(
    JSON.stringify({ model: "gpt-4o", max_tokens: 1000, messages: [{ role: "user", content: "a ".repeat(10_000) }] }),
  );
  const read = readChatRequest(body);
  if (!read.ok) throw new Error("the request is sound");
  const pricing = pricer.quote(read.request, clock.now());
  if (!pricing.ok) throw new Error("the model has a price");
  const who = { key: null, team: null, caller: { key: "", team: null } };
  const holding = await placeHold(deps, {
    id: "1",
    kind: "request",
    route: "/v1/chat/completions",
    who,
    capped: { quote: pricing.quote, body: new BodyBytes([body]), injected: null },
    maximum: null,
    fit: null,
    mayPass: () => false,
    sender: { tags: {}, user: null },
    retry: 0,
  });
  return { counted: count.mock.calls.length, code: holding.ok ? "held" : holding.refusal.code };
}

it.each([
  ["there is room for the count", { spent: "0", held: "0" }, { counted: 1, code: "held" }],
  [
    "the count shows that it would fit once others have settled",
    { spent: "0", held: "0.009" },
    { counted: 1, code: "budget_held" },
  ],
  ["not even the output fits", { spent: "0.009", held: "0" }, { counted: 0, code: "budget_exceeded" }],
  ["nothing is left", { spent: "0.01", held: "0" }, { counted: 0, code: "budget_exceeded" }],
])("a prompt is counted only if that can change the answer: %s", async (_, sums, expected) => {
  expect(await countsWhere(sums)).toEqual(expected);
});
