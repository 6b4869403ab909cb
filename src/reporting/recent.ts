import type { Charge } from "../core/charge.ts";
import type { RecentCursor, RecentQuery } from "../ports/spend.ts";
import { chargeJson } from "./charges.ts";
import type { NameOf } from "./names.ts";
import type { LiveJson } from "./shapes/charges.ts";

/** Returns the latest charges, newest first, with the cursor for the next poll. */
export function recentJson(
  { charges, cursor }: { readonly charges: readonly Charge[]; readonly cursor: RecentCursor },
  nameOf: NameOf,
): LiveJson {
  return {
    charges: charges.map((charge) => chargeJson(charge, nameOf)),
    cursor: `${cursor.written}.${cursor.endedAt}`,
  };
}

/**
 * Returns the query for the ledger; null for an invalid cursor. With a cursor the query does not filter by state, because
 * settling changes the state.
 */
export function recentQueryOf({
  after: text,
  state,
  model,
  limit,
}: {
  readonly after?: string | undefined;
  readonly state?: RecentQuery["state"] | undefined;
  readonly model?: string | undefined;
  readonly limit: number;
}): RecentQuery | null {
  const after = text === undefined ? undefined : readCursor(text);
  if (after === null) return null;
  return {
    limit,
    ...(model !== undefined && { model }),
    ...(after === undefined ? state !== undefined && { state } : { after }),
  };
}

function readCursor(text: string): RecentCursor | null {
  const [, written, endedAt] = /^(\d{1,15})\.(\d{1,15})$/.exec(text) ?? [];
  return written === undefined || endedAt === undefined ? null : { written: Number(written), endedAt: Number(endedAt) };
}
