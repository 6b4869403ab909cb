import { writtenKeptMs, type Charging } from "../../ports/ledger.ts";
import { rowsOf, write, type Query } from "../queries/query.ts";
import { insert, marks, one, type Table } from "./table.ts";

/** Largest number of expired values that one transaction removes. */
const removedAtOnce = 100;

/** Output limits that Farebox wrote into requests, by the idempotency keys of the requests. */
export const writtenLimits: Table<Pick<Charging, "writtenFor">, "writtenFor"> = {
  queries: {},
  announces: false,
  writes: {
    *writtenFor(idempotency, written, at) {
      if (written !== null) {
        yield* removeWrittenBefore(at - writtenKeptMs);
        yield* insert("written_limits", { idempotency, written, written_at: at }, "on conflict do nothing");
      }
      const sql = "select written from written_limits where idempotency = ?";
      return { ok: true, written: (yield* one<{ written: string }>(sql, idempotency))?.written ?? null };
    },
  },
};

/** Removes values written before a time. Skips values that another proxy is removing. */
function* removeWrittenBefore(time: number): Query<void> {
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
