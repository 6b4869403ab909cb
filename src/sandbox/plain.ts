import type { Answer } from "./answer.ts";
import { breakOff, charge, writeHead, type Call } from "./call.ts";
import { pause } from "./pause.ts";
import { consumptionOf } from "./consumption.ts";
import { pauseAfterHeaders, compress, encodingOf, BodyWriter } from "./body-writer.ts";
import { numberOf } from "./scenarios.ts";

/** Sends an answer as one JSON object. Bills the answer in full before writing, even if the client leaves. */
export function sendAnswer(call: Call, answer: Answer, body: unknown): Promise<void> {
  charge(call, consumptionOf(call, answer));
  return writeJson(call, body);
}

/** Writes a billed answer as one JSON object. */
export function writeJson(call: Call, body: unknown): Promise<void> {
  return writeAnswer(call, "application/json", Buffer.from(JSON.stringify(body)));
}

/** Writes the body of a billed answer as its scenario asks. */
export async function writeAnswer(call: Call, contentType: string, plain: Buffer): Promise<void> {
  if (call.gone.aborted) return;
  const { scenario, response } = call;
  const encoding = encodingOf(scenario);
  const body = compress(plain, encoding);
  const headers = {
    "content-type": contentType,
    "content-length": String(statedLength(call, body)),
    ...(encoding === undefined ? {} : { "content-encoding": encoding }),
  };
  writeHead(call, 200, headers);
  if (isWrittenAtOnce(call)) {
    response.end(body);
    return;
  }
  await writeByScenario(call, body);
}

/** Returns true if no scenario delays, splits or breaks off the body. */
function isWrittenAtOnce({ scenario }: Call): boolean {
  return !["cut", "reset-after-headers", "silent-stream", "wrong-length", "slow", "split", "headers-first"].some(
    (name) => name in scenario,
  );
}

async function writeByScenario(call: Call, body: Buffer): Promise<void> {
  const { scenario, gone, response } = call;
  const writer = new BodyWriter(call, undefined);
  response.flushHeaders();
  if ("silent-stream" in scenario || !(await pauseAfterHeaders(call))) return;
  if ("reset-after-headers" in scenario) {
    await writer.flush();
    breakOff(call, "reset");
    return;
  }
  const delayMs = numberOf(scenario, "slow") ?? 0;
  for (const part of inParts("cut" in scenario ? body.subarray(0, body.length / 2) : body, delayMs > 0 ? 5 : 1)) {
    if (!(await pause(delayMs, gone)) || !(await writer.write(part))) return;
  }
  if ("cut" in scenario || "wrong-length" in scenario) {
    await writer.flush();
    if (!gone.aborted) breakOff(call, "close");
    return;
  }
  await writer.end();
}

function* inParts(body: Buffer, parts: number): Generator<Buffer> {
  const length = Math.ceil(body.length / parts);
  for (let from = 0; from < body.length; from += length) yield body.subarray(from, from + length);
}

function statedLength({ scenario }: Call, body: Buffer): number {
  if (!("wrong-length" in scenario)) return body.length;
  return scenario["wrong-length"] === "short" ? Math.floor(body.length / 2) : body.length + 50;
}
