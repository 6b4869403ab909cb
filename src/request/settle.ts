import { noDoubts } from "../core/usage.ts";
import { settlementFor, type Outcome, type Reserved, type Settlement } from "../core/settlement.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { ChargePosted, Events } from "../ports/events.ts";
import type { ChargeEnd, Charging, SettleResult } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { Authenticated } from "./authenticate.ts";
import type { Held } from "./hold.ts";

export interface SettleParams {
  readonly held: Pick<Held, "id" | "route" | "hold" | "price"> & Pick<Reserved, "servedPrice" | "answered">;
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
  { held, quote, who, outcome, end }: SettleParams,
): Promise<ChargePosted | null> {
  const { ledger, events, log } = deps;
  let settlement = settlementFor(held, outcome);
  let result: SettleResult | undefined;
  try {
    result = await write(ledger, held.id, settlement, end);
  } catch (error) {
    log.error({ request_id: held.id, err: error }, "the ledger refused a settlement");
    settlement = settlementFor(held, notRecordable);
    result = await write(ledger, held.id, settlement, end).catch((secondError: unknown) => {
      log.error({ request_id: held.id, err: secondError }, "the ledger refused a settlement");
      return undefined;
    });
  }
  if (result === undefined || !result.ok) {
    log.error(
      { request_id: held.id, reason: result?.reason },
      "a charge could not be settled; recovery will post its hold",
    );
    return null;
  }
  if (settlement.kind === "void" || !result.first) return null;
  const { key } = who;
  const { doubts = noDoubts } = settlement;
  const posted: ChargePosted = {
    id: held.id,
    key: key === null ? null : { id: key.id, name: key.name, team: key.team },
    route: held.route,
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
      { request_id: held.id, source, reason, clamped, doubts, overage: result.overage.toString() },
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
