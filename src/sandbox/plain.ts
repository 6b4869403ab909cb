import type { Answer } from "./answer.ts";
import { breakOff, charge, pause, writeHead, type Call } from "./call.ts";
import { consumptionOf } from "./consumption.ts";
import { afterHeaders, compress, encodingOf, Outlet } from "./outlet.ts";
import { numberOf } from "./scenarios.ts";

/** Answers with one JSON object. Bills it in full before writing, even if the client leaves. */
export function sendAnswer(call: Call, answer: Answer, body: unknown): Promise<void> {
  charge(call, consumptionOf(call, answer));
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
  if (isOrdinary(call)) {
    response.end(body);
    return;
  }
  await writeSpecially(call, body);
}

/** Returns true if the scenario writes the body at once. */
function isOrdinary({ scenario }: Call): boolean {
  return !["cut", "reset-after-headers", "silent-stream", "wrong-length", "slow", "split", "headers-first"].some(
    (name) => name in scenario,
  );
}

async function writeSpecially(call: Call, body: Buffer): Promise<void> {
  const { scenario, gone, response } = call;
  const outlet = new Outlet(call, undefined);
  response.flushHeaders();
  if ("silent-stream" in scenario || !(await afterHeaders(call))) return;
  if ("reset-after-headers" in scenario) {
    await outlet.flush();
    breakOff(call, "reset");
    return;
  }
  const delayMs = numberOf(scenario, "slow") ?? 0;
  for (const part of inParts("cut" in scenario ? body.subarray(0, body.length / 2) : body, delayMs > 0 ? 5 : 1)) {
    if (!(await pause(delayMs, gone)) || !(await outlet.write(part))) return;
  }
  if ("cut" in scenario || "wrong-length" in scenario) {
    await outlet.flush();
    if (!gone.aborted) breakOff(call, "close");
    return;
  }
  await outlet.end();
}

function* inParts(body: Buffer, parts: number): Generator<Buffer> {
  const length = Math.ceil(body.length / parts);
  for (let from = 0; from < body.length; from += length) yield body.subarray(from, from + length);
}

function statedLength({ scenario }: Call, body: Buffer): number {
  if (!("wrong-length" in scenario)) return body.length;
  return scenario["wrong-length"] === "short" ? Math.floor(body.length / 2) : body.length + 50;
}
