import { costOf } from "../../src/core/cost.ts";
import { canonicalPrice } from "../../src/core/price.ts";
import { noTokens } from "../../src/core/usage.ts";
import { usd } from "../../src/core/money.ts";
import { loadCatalogue } from "../../src/catalogue/load.ts";
import type { ChargeEnd, Ledger } from "../../src/ports/ledger.ts";

const answered: Omit<ChargeEnd, "at"> = {
  status: 200,
  servedModel: "model-a-2026",
  gatewayRequestId: "gw-1",
  durationMs: 1200,
  firstTokenMs: null,
};

/**
 * Writes one posted charge at the price of model-a: USD 1 per million input tokens and USD 4 per million output tokens,
 * half of the official price.
 */
export async function spend(
  ledger: Ledger,
  request: {
    id: string;
    at: number;
    key: string;
    team?: string;
    input: number;
    output: number;
    model?: string;
    retry?: number;
  },
): Promise<void> {
  const loaded = await loadCatalogue({ shipped: new URL("./prices/", import.meta.url) });
  const price = loaded.ok ? loaded.catalogue.find("model-a", request.at)?.price : null;
  if (!price) throw new Error("no price for model-a");
  const tokens = { ...noTokens, input: request.input, output: request.output };
  const cost = costOf(price.version, tokens);
  await ledger.hold({
    id: request.id,
    kind: "request",
    at: request.at,
    caller: { key: request.key, team: request.team ?? null, labels: { env: "prod" }, user: "u_1" },
    route: "chat",
    model: request.model ?? "model-a",
    group: null,
    stream: false,
    price: { id: price.id, canonical: canonicalPrice(price.version) },
    amount: usd("1.00"),
    bounded: true,
    tags: { project: "apollo" },
    retry: request.retry ?? 0,
  });
  await ledger.post(
    request.id,
    {
      kind: "post",
      cost: cost.charged,
      listCost: cost.list,
      minimumApplied: cost.minimumApplied,
      tokens,
      clamped: false,
      formula: "tokens",
      source: "reported",
      reason: null,
    },
    { at: request.at, ...answered },
  );
}
