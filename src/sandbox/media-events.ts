import type { Consumption } from "./billing.ts";
import { breakOff, charge, writeHead, type Call } from "./call.ts";
import type { Fields } from "./chat-request.ts";
import { pauseAfterHeaders, BodyWriter } from "./body-writer.ts";
import { numberOf } from "./scenarios.ts";
import { frame } from "./stream-events.ts";

/**
 * Writes a stream of typed events. Bills the answer in full before the first event, because media is not delivered
 * token by token.
 */
export async function writeMediaEvents(call: Call, consumption: Consumption, events: Iterable<Fields>): Promise<void> {
  writeHead(call, 200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  const { observer } = call.shared;
  observer.activeStreams += 1;
  charge(call, { ...consumption, stream: true });
  try {
    const writer = new BodyWriter(call, undefined);
    if (!(await pauseAfterHeaders(call))) return;
    const cutAfter = numberOf(call.scenario, "cut");
    for (const event of events) {
      if (call.seen.deltas === cutAfter) {
        await writer.flush();
        return breakOff(call, "close");
      }
      call.seen.deltas += 1;
      observer.changed();
      const text = frame(
        { kind: "delta", name: String(event["type"]), data: JSON.stringify(event), tokens: 0 },
        call.scenario,
      );
      if (!(await writer.write(text))) return;
    }
    await writer.end();
  } finally {
    observer.activeStreams -= 1;
    observer.changed();
  }
}
