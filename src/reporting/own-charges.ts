import type { Charge, ChargeState } from "../core/charge.ts";
import type { Key } from "../core/keys.ts";
import type { Calendar } from "../ports/calendar.ts";
import { pricesOf, type ChargeQuery, type Ledger } from "../ports/ledger.ts";
import { chargeDetailsJson, chargesJson } from "./charges.ts";
import { parseInstant } from "./instants.ts";
import { ownName } from "./names.ts";
import type { ChargeDetailsJson, ChargeListJson } from "./shapes/charges.ts";

/** What one key is shown of the ledger: its own charges. `key` is null where none is asked for; then what came without one. */
export interface OwnCharges {
  readonly ledger: Ledger;
  readonly key: Key | null;
}

const parameters = ["limit", "cursor", "model", "state", "since"] as const;
type Parameters = Partial<Record<(typeof parameters)[number], string>>;

const states: readonly string[] = ["pending", "posted", "voided"] satisfies ChargeState[];
const limitDefault = 100;
const limitMax = 1000;

export type QueryFault = {
  readonly ok: false;
  /** The parameter that is at fault. */
  readonly param: string;
  readonly message: string;
};

function fault(param: string, message: string): QueryFault {
  return { ok: false, param, message };
}

/** One page of a key's own charges, newest first, as a query asks for it. */
export async function ownCharges(
  own: OwnCharges,
  query: Iterable<readonly [name: string, value: string]>,
  { now, calendar }: { readonly now: number; readonly calendar: Calendar },
): Promise<{ readonly ok: true; readonly page: ChargeListJson } | QueryFault> {
  const read = readParameters(query);
  if (!read.ok) return read;
  const { limit, cursor, model, state, since } = read.given;
  const count = limit === undefined ? limitDefault : wholeNumber(limit);
  if (!(count >= 1 && count <= limitMax)) return fault("limit", `limit must be a whole number from 1 to ${limitMax}`);
  if (state !== undefined && !states.includes(state))
    return fault("state", `state must be one of ${states.join(", ")}`);
  const from = since === undefined ? null : parseInstant("since", since, now, calendar);
  if (from?.ok === false) return fault("since", from.problem);
  if (cursor !== undefined && (await findOwn(own, cursor)) === undefined) {
    return fault("cursor", "cursor must be the `next` of an earlier page of this list");
  }
  const asked: ChargeQuery = {
    key: own.key?.id ?? "",
    limit: count,
    ...(model !== undefined && { model }),
    ...(state !== undefined && { state: state as ChargeState }),
    ...(from && { since: from.at }),
    ...(cursor !== undefined && { after: cursor }),
  };
  return { ok: true, page: chargesJson(await own.ledger.charges(asked), ownName(own.key)) };
}

/** One of a key's own charges with its corrections; undefined for any other, whether it exists or not. */
export async function ownCharge(own: OwnCharges, id: string): Promise<ChargeDetailsJson | undefined> {
  const charge = await findOwn(own, id);
  if (charge === undefined) return undefined;
  const corrections = await own.ledger.charges({ adjusts: charge.id, limit: limitMax });
  return chargeDetailsJson(charge, corrections.charges, ownName(own.key), await pricesOf(own.ledger, charge));
}

async function findOwn({ ledger, key }: OwnCharges, id: string): Promise<Charge | undefined> {
  const charge = await ledger.charge(id);
  return charge?.key === (key?.id ?? "") ? charge : undefined;
}

function readParameters(
  query: Iterable<readonly [string, string]>,
): { readonly ok: true; readonly given: Parameters } | QueryFault {
  const given: Parameters = {};
  for (const [name, value] of query) {
    const known = parameters.find((each) => each === name);
    if (known === undefined)
      return fault(name, `there is no parameter ${JSON.stringify(name)} here; known are ${parameters.join(", ")}`);
    if (given[known] !== undefined) return fault(name, `${name} is given twice`);
    given[known] = value;
  }
  return { ok: true, given };
}

function wholeNumber(text: string): number {
  return /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
}
