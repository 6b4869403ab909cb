import { firstTextKeptMs, type Charging } from "../../ports/ledger.ts";
import { rowsOf, write, type Query } from "../queries/query.ts";
import { insert, marks, one, type Table } from "./table.ts";

/** Largest number of expired texts that one transaction removes. */
const removedAtOnce = 100;

/** Texts of which the first one under a name counts. The table is `written_limits`, after its first use. */
export const firstTexts: Table<Pick<Charging, "firstText">, "firstText"> = {
  queries: {},
  announces: false,
  writes: {
    *firstText(name, text, at) {
      if (text !== null) {
        yield* removeStoredBefore(at - firstTextKeptMs);
        yield* insert("written_limits", { idempotency: name, written: text, written_at: at }, "on conflict do nothing");
      }
      const sql = "select written from written_limits where idempotency = ?";
      return { ok: true, text: (yield* one<{ written: string }>(sql, name))?.written ?? null };
    },
  },
};

/** Removes texts stored before a time. Skips those that another proxy is removing. */
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
