import { noDoubts } from "../core/usage.ts";
import { settlementFor, type Outcome, type Reserved, type Settlement } from "../core/settlement.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Events } from "../ports/events.ts";
import type { ChargeEnd, Charging, SettleResult } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { Authenticated } from "./authenticate.ts";
import type { Held } from "./hold.ts";

export interface SettleParams {
  readonly held: Pick<Held, "id" | "route" | "hold" | "price"> & Pick<Reserved, "servedPrice">;
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

/** Ends the hold. The ledger retries it until it is written; no one waits for it, and it never rejects. */
export async function settleCharge(deps: SettleDeps, { held, quote, who, outcome, end }: SettleParams): Promise<void> {
  const { events, log } = deps;
  let settlement = settlementFor(held, outcome);
  let result = await write(deps, held.id, settlement, end);
  if (result === undefined) {
    settlement = settlementFor(held, { kind: "unknown", reason: "not_recordable" });
    result = await write(deps, held.id, settlement, end);
  }
  if (result === undefined || !result.ok) {
    log.error(
      { request_id: held.id, reason: result?.reason },
      "a charge could not be settled; recovery will post its hold",
    );
    return;
  }
  if (settlement.kind === "void" || !result.first) return;
  const { key } = who;
  const { doubts = noDoubts } = settlement;
  events.posted({
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
  });
  // A client that leaves its stream is no trouble; a gateway that breaks one off is.
  const isBroken = settlement.source === "partial" && settlement.reason !== "client_left";
  if (settlement.source === "assumed" || isBroken || settlement.clamped || result.overage > 0n) {
    const { source, reason, clamped } = settlement;
    log.warn(
      { request_id: held.id, source, reason, clamped, doubts, overage: result.overage.toString() },
      "settled without a plain report",
    );
  }
}

/** Undefined where the ledger refuses the settlement itself: an amount beyond what it can hold, or a bug. */
async function write(
  { ledger, log }: SettleDeps,
  id: string,
  settlement: Settlement,
  end: ChargeEnd,
): Promise<SettleResult | undefined> {
  try {
    return settlement.kind === "void"
      ? await ledger.void(id, settlement.reason, end)
      : await ledger.post(id, settlement, end);
  } catch (error) {
    log.error({ request_id: id, err: error }, "the ledger refused a settlement");
    return undefined;
  }
}
