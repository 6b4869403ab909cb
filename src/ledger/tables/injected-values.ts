import { injectedKeptMs, type Charging } from "../../ports/ledger.ts";
import { rowsOf, write, type Query } from "../queries/query.ts";
import { insert, marks, one, type Table } from "./table.ts";

/** Largest number of expired values that one transaction removes. */
const removedAtOnce = 100;

/** Values that Farebox injected into requests, by the idempotency keys of the requests. The table is `written_limits`. */
export const injectedValues: Table<Pick<Charging, "injectedFor">, "injectedFor"> = {
  queries: {},
  announces: false,
  writes: {
    *injectedFor(idempotency, injected, at) {
      if (injected !== null) {
        yield* removeStoredBefore(at - injectedKeptMs);
        yield* insert("written_limits", { idempotency, written: injected, written_at: at }, "on conflict do nothing");
      }
      const sql = "select written from written_limits where idempotency = ?";
      return { ok: true, injected: (yield* one<{ written: string }>(sql, idempotency))?.written ?? null };
    },
  },
};

/** Removes values stored before a time. Skips values that another proxy is removing. */
function* removeStoredBefore(time: number): Query<void> {
  const expired = yield* rowsOf<{ idempotency: string }>({
    sql: "select idempotency from written_limits where written_at < ? limit ?",
    values: [time, removedAtOnce],
    isSmall: true,
    lock: "update skip locked",
  });
  if (expired.length === 0) return;
  const names = expired.map(({ idempotency }) => idempotency);
  yield* write(`delete from written_limits where idempotency in (${marks(names)})`, ...names);
}
