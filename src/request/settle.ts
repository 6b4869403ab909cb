import { noMoney, type PicoUsd } from "../core/money.ts";
import { mergeDoubts, noDoubts } from "../core/usage.ts";
import { settlementFor, tokensUsed, type Outcome, type Reserved, type Settlement } from "../core/settlement.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { ChargePosted, Events } from "../ports/events.ts";
import type { ChargeEnd, Charging, SettleResult } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { Authenticated } from "./authenticate.ts";
import { billedAs, chargeTerms } from "./billed.ts";
import type { GrowingHold } from "./growing-hold.ts";
import type { PendingCharge } from "./hold.ts";
import type { Slot } from "./rate-limits.ts";
import { meterResponse, type MeterDeps } from "./meter.ts";
import type { PricedRequest } from "./output-cap.ts";
import type { Ending, Forwarded } from "./response.ts";

export interface SettleParams {
  readonly charge: Pick<PendingCharge, "id" | "route" | "hold" | "price"> & Pick<Reserved, "servedPrice" | "answered">;
  readonly quote: { readonly model: Pick<CatalogueModel, "id" | "group"> | undefined };
  readonly who: Authenticated;
  readonly outcome: Outcome;
  readonly end: ChargeEnd;
}

export interface SettleDeps {
  readonly ledger: Pick<Charging, "post" | "void">;
  readonly events: Pick<Events, "posted">;
  readonly log: Log;
}

const notRecordable: Outcome = { kind: "unknown", reason: "not_recordable" };

/**
 * Settles the hold. Returns the posted charge; null if this call posted nothing. The ledger retries until the
 * settlement is written. No client waits for it. Never rejects.
 */
export async function settleCharge(
  deps: SettleDeps,
  { charge, quote, who, outcome, end }: SettleParams,
): Promise<ChargePosted | null> {
  const { ledger, events, log } = deps;
  let settlement = settlementFor(charge, outcome);
  let result: SettleResult | undefined;
  try {
    result = await write(ledger, charge.id, settlement, end);
  } catch (error) {
    log.error({ request_id: charge.id, err: error }, "the ledger refused a settlement");
    settlement = settlementFor(charge, notRecordable);
    result = await write(ledger, charge.id, settlement, end).catch((secondError: unknown) => {
      log.error({ request_id: charge.id, err: secondError }, "the ledger refused a settlement");
      return undefined;
    });
  }
  if (result === undefined || !result.ok) {
    log.error(
      { request_id: charge.id, reason: result?.reason },
      "a charge could not be settled; recovery will post its hold",
    );
    return null;
  }
  if (settlement.kind === "void" || !result.first) return null;
  const { key } = who;
  const { doubts = noDoubts } = settlement;
  const posted: ChargePosted = {
    id: charge.id,
    key: key === null ? null : { id: key.id, name: key.name, team: key.team },
    route: charge.route,
    model: quote.model?.id ?? null,
    group: quote.model?.group ?? null,
    source: settlement.source,
    cost: result.cost,
    listCost: settlement.listCost,
    overage: result.overage,
    tokens: settlement.tokens,
    doubts,
  };
  events.posted(posted);
  // A stream that the client left causes no warning, because clients often leave streams.
  const isBroken = settlement.source === "partial" && settlement.reason !== "client_left";
  if (settlement.source === "assumed" || isBroken || settlement.clamped || result.overage > 0n) {
    const { source, reason, clamped } = settlement;
    log.warn(
      { request_id: charge.id, source, reason, clamped, doubts, overage: result.overage.toString() },
      "settled with an uncertain cost or an overage",
    );
  }
  return posted;
}

/**
 * Posts or voids a hold. Rejects if the ledger refuses the settlement, because the amount is too large for the ledger
 * or because of a bug.
 */
function write(
  ledger: SettleDeps["ledger"],
  id: string,
  settlement: Settlement,
  end: ChargeEnd,
): Promise<SettleResult> {
  return settlement.kind === "void" ? ledger.void(id, settlement.reason, end) : ledger.post(id, settlement, end);
}

/** Request whose hold is to be settled. */
type RequestToSettle = Omit<SettleParams, "outcome" | "end"> & { readonly slot: Slot };

/** Settles the hold, and replaces the reserved tokens by the used ones. */
export function settle(
  steps: SettleDeps,
  { slot, charge, quote, who }: RequestToSettle,
  outcome: Outcome,
  end: ChargeEnd,
): Promise<ChargePosted | null> {
  if (slot.countsTokens) slot.settleTokens(tokensUsed(outcome));
  return settleCharge(steps, { charge, quote, who, outcome, end });
}

/**
 * Meters the answer, and settles the charge at the most expensive of the terms that may apply. Calls `release` once the
 * body is no longer needed. If the answer cannot be metered, posts the hold.
 */
export async function settleMetered(
  steps: SettleDeps & MeterDeps,
  metered: Omit<RequestToSettle, "quote"> & {
    readonly charge: PendingCharge;
    readonly held: PricedRequest;
    readonly growing: GrowingHold | undefined;
  },
  { ending, terms: stated }: Pick<Forwarded<Ending>, "ending" | "terms">,
  end: ChargeEnd,
  release: () => void,
): Promise<ChargePosted | null> {
  const { charge, held, growing, slot, who } = metered;
  const { quote, body } = held;
  const inFlightTokens = growing?.inFlightTokens ?? 0;
  const terms = billedAs(quote, stated);
  let outcome: Outcome;
  try {
    outcome = await meterResponse(steps, ending, { ...chargeTerms(quote, terms), body, inFlightTokens });
  } catch (error) {
    steps.log.error({ request_id: charge.id, err: error }, "an answer could not be metered; its hold is posted");
    outcome = { kind: "unknown", reason: "not_metered" };
  } finally {
    release();
  }
  const hold = growing === undefined ? charge.hold : await growing.settled();
  const doubts = mergeDoubts(outcome.doubts, ...terms.map((billed) => billed.doubts), quote.request.fields.doubts);
  const charges = terms.map(({ servedPrice, answered, billing }) => ({
    charge: { ...charge, hold, servedPrice, answered },
    outcome:
      billing === undefined && doubts.length === 0 ? outcome : { ...outcome, ...(billing && { billing }), doubts },
  }));
  const mostExpensive = charges.reduce((largest, each) => (costOf(each) > costOf(largest) ? each : largest));
  return settle(steps, { slot, charge: mostExpensive.charge, quote, who }, mostExpensive.outcome, end);
}

/** Returns the cost that the settlement of an outcome posts. */
function costOf({ charge, outcome }: { readonly charge: Reserved; readonly outcome: Outcome }): PicoUsd {
  const settlement = settlementFor(charge, outcome);
  return settlement.kind === "void" ? noMoney : (settlement.cost ?? noMoney);
}
