import { expect, it } from "vitest";
import { StreamedResponse } from "../../../src/request/streamed-response.ts";
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
  };
  const rules = { endpoint: chatCompletions, dropUsageChunk: false, cutAtMaximum: null, watch };
  const response = new StreamedResponse(deps as never, rules as never);
  const event = JSON.stringify({ choices: [{ index: 0, delta: { content: "x".repeat(1000) } }] });
  response.chunk(Buffer.from(`data: ${event}\n\ndata: [DONE]\n\n`), true);
  expect(charactersRead).toBe(1000);
});
