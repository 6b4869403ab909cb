import { markKeptMs, marksAfter, type BurstMark } from "../../core/slices.ts";
import type { Replies, StreamsCommand } from "../commands.ts";
import type { Statements } from "./connection.ts";

const columns = "key, model, burst_at as at, live";

interface Row {
  readonly key: string;
  readonly model: string;
  readonly at: bigint | number;
  readonly live: bigint | number;
}

/** Stores the observation of a stream, if one is given, and returns all marks. */
export async function burstMarks(db: Statements, [, seen, at]: StreamsCommand): Promise<Replies["streams"]> {
  if (seen !== null) {
    // If two keys on two proxies write at once, the second must see the first one's mark.
    await db.run("lock table stream_bursts in share row exclusive mode");
    const before = await db.rows<Row>(`select ${columns} from stream_bursts where model = $1`, [seen.model]);
    await db.run("delete from stream_bursts where model = $1 or burst_at < $2", [seen.model, at - markKeptMs]);
    for (const mark of marksAfter(before.map(markOf), seen, at))
      await db.run("insert into stream_bursts (key, model, burst_at, live) values ($1, $2, $3, $4)", [
        mark.key,
        mark.model,
        mark.at,
        mark.live,
      ]);
  }
  const rows = await db.rows<Row>(`select ${columns} from stream_bursts order by model, key`);
  return { ok: true, marks: rows.map(markOf) };
}

function markOf({ key, model, at, live }: Row): BurstMark {
  return { key, model, at: Number(at), live: Number(live) };
}
