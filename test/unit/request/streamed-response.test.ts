import { describe, expect, it } from "vitest";
import { StreamedResponse } from "../../../src/request/streamed-response.ts";
import { StreamMemory } from "../../../src/request/stream-memory.ts";
import { chatCompletions } from "../../../src/wire/endpoints/chat-completions.ts";

it("the last piece of a stream is read for its hold if it waits for a slow client", () => {
  let charactersRead = 0;
  const output = {
    text: (text: string) => void (charactersRead += text.length),
    unknown() {},
    inFlight() {},
    media() {},
  };
  const watch = {
    begin() {},
    cannotRead() {},
    end() {},
    onChunk() {},
    mustRead: (unreadBytes: number, isLast: boolean) => !isLast && unreadBytes > 10,
    output,
  };
  const deps = {
    exchange: { begin() {}, write: () => false, onDrain() {}, end() {}, clientGone: false, status: 200 },
    head: { status: 200, header: () => undefined, rawHeaders: [], statusText: "" },
    headers: [],
    pace: { pause() {}, resume() {} },
    ranMs: () => 1,
    stated() {},
    memory: new StreamMemory(),
  };
  const rules = { endpoint: chatCompletions, dropUsageChunk: false, cutAtMaximum: null, watch };
  const response = new StreamedResponse(deps as never, rules as never);
  const event = JSON.stringify({ choices: [{ index: 0, delta: { content: "x".repeat(1000) } }] });
  response.chunk(Buffer.from(`data: ${event}\n\ndata: [DONE]\n\n`), true);
  expect(charactersRead).toBe(1000);
});

const delta = (text: string) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`;
const finish = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
/** Events that take several pieces to read. */
const long = delta("x".repeat(1000)).repeat(200);

/** Starts a response. `log` receives what happens in its order. */
function responding(memory = new StreamMemory()) {
  const log: string[] = [];
  const waits: (() => void)[] = [];
  const deps = {
    exchange: {
      begin() {},
      write: (bytes: Buffer) => void log.push(bytes.includes("gateway_stream_broken") ? "error" : "write"),
      end: () => void log.push("end"),
      onDrain() {},
      clientGone: false,
      span: null,
    },
    head: { status: 200, header: () => undefined, rawHeaders: [], statusText: "" },
    headers: [],
    pace: { pause() {}, resume() {} },
    ranMs: () => 1,
    onTerms: () => void log.push("read"),
    clock: { after: (_ms: number, callback: () => void) => (log.push("pause"), waits.push(callback)) },
    memory,
  };
  const rules = {
    endpoint: chatCompletions,
    dropUsageChunk: false,
    cutAtMaximum: null,
    watch: undefined,
    onOver: () => log.push("over"),
  };
  const response = new StreamedResponse(deps as never, rules as never);
  const resumed = async () => {
    for (let turn = 0; turn < 20; turn++) {
      waits.splice(0).forEach((resume) => resume());
      await Promise.resolve();
    }
  };
  return { response, log, resumed };
}

describe("the end of a stream without usage", () => {
  it("reaches the client before Farebox reads the stream, which it does in pieces", async () => {
    const { response, log, resumed } = responding();
    response.chunk(Buffer.from(long + finish), false);
    const ending = response.end();
    await resumed();
    expect(await ending).toMatchObject({ kind: "whole", texts: ["x".repeat(200_000)] });
    expect(log).toEqual(["write", "end", "over", "pause", "pause", "pause", "read"]);
  });

  it("waits for the whole stream if its last events do not show that it is complete", async () => {
    const { response, log, resumed } = responding();
    response.chunk(Buffer.from(finish + long), false);
    const ending = response.end();
    await resumed();
    expect(await ending).toMatchObject({ kind: "whole", texts: ["x".repeat(200_000)] });
    expect(log).toEqual(["write", "over", "pause", "pause", "pause", "read", "end"]);
  });

  it("is an error event if the stream is not complete", async () => {
    const { response, log, resumed } = responding();
    response.chunk(Buffer.from(long), false);
    const ending = response.end();
    await resumed();
    expect(await ending).toMatchObject({ kind: "cut", reason: "gateway_cut", texts: ["x".repeat(200_000)] });
    expect(log).toEqual(["write", "over", "pause", "pause", "pause", "read", "error", "end"]);
  });
});

it("streams that keep more than 64 MB together are read as they arrive, until others have ended", () => {
  const memory = new StreamMemory();
  const all = Array.from({ length: 400 }, () => responding(memory).response);
  const piece = Buffer.from(long);
  let most = 0;
  for (const response of all) {
    response.chunk(piece, false);
    most = Math.max(most, memory.bytes);
  }
  expect(400 * piece.length).toBeGreaterThan(64 * 1024 * 1024);
  expect(most).toBeGreaterThan(60 * 1024 * 1024);
  expect(most).toBeLessThanOrEqual(64 * 1024 * 1024 + piece.length);
  for (const response of all) response.release();
  expect(memory.bytes).toBe(0);
});
