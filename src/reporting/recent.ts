import type { Charge } from "../core/charge.ts";
import type { RecentCursor, RecentQuery } from "../ports/spend.ts";
import { chargeJson } from "./charges.ts";
import type { NameOf } from "./names.ts";
import type { LiveJson } from "./shapes/charges.ts";

/** The latest charges, newest first, with the cursor of the next poll. */
export function recentJson(
  { charges, cursor }: { readonly charges: readonly Charge[]; readonly cursor: RecentCursor },
  nameOf: NameOf,
): LiveJson {
  return {
    charges: charges.map((charge) => chargeJson(charge, nameOf)),
    cursor: `${cursor.written}.${cursor.endedAt}`,
  };
}

/** The query of the ledger; null for an invalid cursor. After a cursor the state is no filter, since settling changes it. */
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
