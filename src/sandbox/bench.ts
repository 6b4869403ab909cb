import { charge, writeHead, type Call } from "./call.ts";
import type { ChatRequest } from "./chat-request.ts";
import { numberOf } from "./scenarios.ts";
import { randomFrom, digest } from "./random.ts";
import { prose } from "./text.ts";

/** Answer that is ready to write. */
interface Prepared {
  readonly model: string;
  readonly promptTokens: number;
  readonly body: Buffer;
  /** Events of the stream, including the usage and [DONE]. */
  readonly events: readonly Buffer[];
  /** All events in HTTP's chunked framing, without the closing chunk. */
  readonly burst: Buffer;
}

const cache = new Map<string, Prepared>();
const cacheMax = 64;

/**
 * Sends a prepared answer with little CPU: `bench:200` in one burst, `bench:200+slow:5` with pauses. Does not parse the
 * request or count tokens: the prompt has 100 tokens, or N with `prompt:N`. A stream always has a usage chunk.
 */
export function serveBench(call: Call, request?: ChatRequest): Promise<void> {
  const outputTokens = numberOf(call.scenario, "bench") ?? 200;
  const model = request?.model ?? modelIn(call.seen.body);
  const ready = prepared(model, outputTokens, numberOf(call.scenario, "prompt") ?? 100);
  if (!(request?.stream ?? asksForStream(call.seen.body))) {
    bill(call, ready, outputTokens, null);
    writeHead(call, 200, { "content-type": "application/json", "content-length": String(ready.body.length) });
    call.response.end(ready.body);
    return Promise.resolve();
  }
  writeHead(call, 200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  const delayMs = numberOf(call.scenario, "slow") ?? call.shared.options.chunkDelayMs;
  if (delayMs > 0) return paced(call, ready, outputTokens, delayMs);
  bill(call, ready, outputTokens, outputTokens);
  const { response } = call;
  response.flushHeaders();
  if (response.socket === null) for (const event of ready.events) response.write(event);
  else response.socket.write(ready.burst);
  response.end();
  return Promise.resolve();
}

function paced(call: Call, ready: Prepared, outputTokens: number, delayMs: number): Promise<void> {
  const { response, gone, seen, shared } = call;
  response.flushHeaders();
  shared.observer.activeStreams += 1;
  return new Promise((resolve) => {
    let next = 0;
    const end = () => {
      clearInterval(timer);
      gone.removeEventListener("abort", end);
      bill(call, ready, seen.deltas, seen.deltas);
      shared.observer.activeStreams -= 1;
      shared.observer.changed();
      resolve();
    };
    const timer = setInterval(() => {
      if (seen.deltas < outputTokens) {
        seen.deltas += 1;
        response.write(ready.events[next++] ?? "");
        return;
      }
      end();
      response.end(Buffer.concat(ready.events.slice(next)));
    }, delayMs);
    gone.addEventListener("abort", end);
  });
}

function bill(call: Call, ready: Prepared, completionTokens: number, deliveredTokens: number | null): void {
  charge(call, {
    requestId: call.requestId,
    completionId: benchId,
    at: call.seen.at,
    model: ready.model,
    scenario: call.seen.scenario,
    stream: deliveredTokens !== null,
    promptTokens: ready.promptTokens,
    cachedTokens: 0,
    completionTokens,
    deliveredTokens,
    cutByGateway: false,
  });
}

/**
 * Returns true if the body asks for a stream. Searches the raw bytes without parsing them: a benchmark's prompt never
 * contains this text.
 */
function asksForStream(body: Buffer): boolean {
  return body.includes('"stream":true') || body.includes('"stream": true');
}

function modelIn(body: Buffer): string {
  const at = body.indexOf('"model"');
  return /^"model"\s*:\s*"([^"+]+)/.exec(body.toString("latin1", at, at + 200))?.[1] ?? "gpt-4o";
}

const benchId = "chatcmpl-bench";

function prepared(model: string, outputTokens: number, promptTokens: number): Prepared {
  const key = `${model} ${outputTokens} ${promptTokens}`;
  const known = cache.get(key);
  if (known !== undefined) return known;
  if (cache.size >= cacheMax) cache.clear();
  const made = prepare(model, outputTokens, promptTokens);
  cache.set(key, made);
  return made;
}

function prepare(model: string, outputTokens: number, promptTokens: number): Prepared {
  const words = prose(randomFrom(digest("bench")))
    .take(outputTokens)
    .map((piece) => piece.text)
    .toArray();
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
  };
  const head = { id: benchId, created: 1_760_000_000, model };
  const choice = { index: 0, message: { role: "assistant", content: words.join("") }, finish_reason: "stop" };
  const chunk = (choices: unknown[], more = {}) =>
    `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices, ...more })}\n\n`;
  const events = [
    ...words.map((content) => chunk([{ index: 0, delta: { content }, finish_reason: null }])),
    chunk([{ index: 0, delta: {}, finish_reason: "stop" }]),
    chunk([], { usage }),
    "data: [DONE]\n\n",
  ].map((event) => Buffer.from(event));
  return {
    model,
    promptTokens,
    body: Buffer.from(JSON.stringify({ ...head, object: "chat.completion", choices: [choice], usage })),
    events,
    burst: Buffer.concat(
      events.flatMap((event) => [Buffer.from(`${event.length.toString(16)}\r\n`), event, Buffer.from("\r\n")]),
    ),
  };
}
