import type { Consumption } from "./billing.ts";
import { breakOff, charge, errorBody, isMessagesPath, writeHead, type Call } from "./call.ts";
import { untilGone, pause } from "./pause.ts";
import type { Written } from "./consumption.ts";
import { pauseAfterHeaders, delayOf, encodingOf, BodyWriter } from "./body-writer.ts";
import { numberOf } from "./scenarios.ts";
import { frame, type StreamEvent } from "./stream-events.ts";

/** Way in which a stream ended. A complete stream is billed in full, any other for the written tokens. */
type StreamEnd = "whole" | "clientLeft" | "error" | "cut" | "reset";

/**
 * Sends events, and bills what `consumption` returns for the written part as `StreamEnd` states; undefined bills
 * nothing.
 */
export async function streamAnswer(
  call: Call,
  events: Iterable<StreamEvent>,
  consumption: (written: Written) => Consumption | undefined,
): Promise<void> {
  const encoding = encodingOf(call.scenario);
  writeHead(call, 200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    ...(encoding === undefined ? {} : { "content-encoding": encoding }),
  });
  const { observer } = call.shared;
  observer.activeStreams += 1;
  const meter = { delivered: 0, searches: 0, billed: false };
  const bill = (whole: boolean, cutByGateway: boolean) => {
    const { billed, ...written } = meter;
    meter.billed = true;
    const used = billed ? undefined : consumption({ ...written, whole, cutByGateway });
    if (used !== undefined) charge(call, used);
  };
  try {
    const writer = new BodyWriter(call, encoding);
    const end = await writeEvents(call, events, writer, meter, () => bill(true, false));
    bill(end === "whole", end === "error" || end === "cut" || end === "reset");
    if (end === "whole" || end === "error") await writer.end();
    if (end === "cut" || end === "reset") breakOff(call, end === "cut" ? "close" : "reset");
  } finally {
    observer.activeStreams -= 1;
    observer.changed();
  }
}

async function writeEvents(
  call: Call,
  events: Iterable<StreamEvent>,
  writer: BodyWriter,
  meter: { delivered: number; searches: number },
  beforeDone: () => void,
): Promise<StreamEnd> {
  const { scenario, gone, seen, shared } = call;
  if ("silent-stream" in scenario || "reset-after-headers" in scenario) {
    call.response.flushHeaders();
    await writer.flush();
    if ("reset-after-headers" in scenario) return "reset";
    await untilGone(gone);
    return "clientLeft";
  }
  if (!(await pauseAfterHeaders(call))) return "clientLeft";
  const delayMs = delayOf(call);
  const cutAfter = numberOf(scenario, "cut");
  const errorAfter = numberOf(scenario, "stream-error");
  for (const event of events) {
    if (event.kind === "delta" || event.kind === "finish") {
      if (seen.deltas === cutAfter) {
        await writer.flush();
        return "cut";
      }
      if (seen.deltas === errorAfter) return (await writer.write(errorEventOf(call))) ? "error" : "clientLeft";
    }
    if (event.kind === "delta" && delayMs > 0 && !(await pause(delayMs, gone))) return "clientLeft";
    if (event.kind === "done") beforeDone();
    if (gone.aborted) return "clientLeft";
    if (event.kind === "delta") {
      seen.deltas += 1;
      meter.delivered += event.tokens;
      shared.observer.changed();
    }
    if (event.isSearch) meter.searches += 1;
    if (!(await writer.write(frame(event, scenario)))) return "clientLeft";
  }
  return "whole";
}

function errorEventOf(call: Call): string {
  const body = errorBody(call, {
    status: 500,
    type: "server_error",
    code: null,
    message: "The server had an error while processing your request.",
  });
  return `${isMessagesPath(call.path) ? "event: error\n" : ""}data: ${JSON.stringify(body)}\n\n`;
}
