import type { Store } from "../../src/ports/stores.ts";
import { noon, type LedgerKind } from "./ledger-fixtures.ts";
import { manualClock } from "./manual-clock.ts";

/** Opens a new store. Disposing of it also disposes of its home. */
export async function opened(kind: LedgerKind): Promise<Store> {
  const home = kind.newHome(manualClock(noon));
  const store = await home.open();
  return {
    ...store,
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
    },
  };
}

/** Returns the sums of all windows at a time. */
export async function sums({ ledger }: Store, at = noon) {
  return (await ledger.windows(at)).map(({ budget, subject, spent, held }) => ({
    id: budget.id,
    subject,
    spent,
    held,
  }));
}

/** Part of a verification that found nothing. */
export const clean = { differences: [] };
