import { markKeptMs, marksAfter, type BurstMark } from "../../core/slices.ts";
import type { Charging } from "../../ports/ledger.ts";
import { write } from "../queries/query.ts";
import { all, insert, locked, type Table } from "./table.ts";

const select = "select key, model, burst_at as at, live from stream_bursts";

/** Models whose streams arrived all at once. */
export const streamBursts: Table<Pick<Charging, "burstMarks">, "burstMarks"> = {
  queries: {},
  announces: false,
  writes: {
    *burstMarks(seen, at) {
      if (seen !== null) {
        // If two proxies write at the same time, this lock lets the second see the mark of the first.
        yield* locked("update", "select 1 from meta");
        const before = yield* all<BurstMark>(`${select} where model = ?`, seen.model);
        yield* write("delete from stream_bursts where model = ? or burst_at < ?", seen.model, at - markKeptMs);
        for (const { key, model, at: burstAt, live } of marksAfter(before, seen, at))
          yield* insert("stream_bursts", { key, model, burst_at: burstAt, live });
      }
      return { ok: true, marks: yield* all<BurstMark>(`${select} order by model, key`) };
    },
  },
};
