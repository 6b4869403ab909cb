import { markKeptMs, marksAfter, type BurstMark } from "../../core/slices.ts";
import type { Replies, StreamsCommand } from "../commands.ts";
import type { Connection } from "./connection.ts";

const columns = "key, model, burst_at as at, live";

/** Stores the observation of a stream, if one is given, and returns all marks. */
export function burstMarks(db: Connection, [, seen, at]: StreamsCommand): Replies["streams"] {
  if (seen !== null) {
    const before = db.prepare(`select ${columns} from stream_bursts where model = ?`).all(seen.model).map(markOf);
    const forget = db.prepare("delete from stream_bursts where model = ? or burst_at < ?");
    const keep = db.prepare("insert into stream_bursts (key, model, burst_at, live) values (?, ?, ?, ?)");
    forget.run(seen.model, at - markKeptMs);
    for (const mark of marksAfter(before, seen, at)) keep.run(mark.key, mark.model, mark.at, mark.live);
  }
  const marks = db.prepare(`select ${columns} from stream_bursts order by model, key`).all().map(markOf);
  return { ok: true, marks };
}

function markOf(row: unknown): BurstMark {
  const { key, model, at, live } = row as BurstMark;
  return { key, model, at: Number(at), live: Number(live) };
}
