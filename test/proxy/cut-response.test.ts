import { describe, expect, it } from "vitest";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { answeringGateway } from "../support/answering-gateway.ts";

/* Streams of the Responses API that end at a maximum. */

const ending = (type: string, response: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: 3, response })}\n\n`;
const delta = `event: response.output_text.delta\ndata: ${JSON.stringify({ type: "response.output_text.delta", sequence_number: 2, item_id: "m", output_index: 0, content_index: 0, delta: "hello" })}\n\n`;
const usage = { input_tokens: 8, output_tokens: 500, total_tokens: 508 };
const incomplete = (reason: string) =>
  ending("response.incomplete", {
    id: "r",
    model: "gpt-4o",
    status: "incomplete",
    // Its last event repeats all of the output.
    output: [{ type: "message", id: "m", content: [{ type: "output_text", text: "hello ".repeat(50_000) }] }],
    incomplete_details: { reason },
    usage,
  });

const tools = [{ type: "function", name: "f", parameters: { type: "object", properties: {} } }];

async function streamed(last: string, body: object, capped = true): Promise<{ text: string; proxy: RunningProxy }> {
  await using gateway = await answeringGateway(() => ({
    headers: { "content-type": "text/event-stream" },
    body: delta + last,
  }));
  await using owned = new AsyncDisposableStack();
  const proxy = owned.use(
    await startProxy({ gatewayUrl: gateway.url, env: capped ? { FAREBOX_OUTPUT_CAP: "500" } : {} }),
  );
  const response = await fetch(`${proxy.url}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${proxy.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "gpt-4o", input: "hello", stream: true, ...body }),
  });
  const text = await response.text();
  const charge = await proxy.onlyCharge();
  expect(charge).toMatchObject({ state: "posted", source: "reported", tokens: { output: 500 } });
  return { text, proxy };
}

describe("a response with tools that ends at a maximum of ours", () => {
  it("ends as a cut stream does, and is charged as reported", async () => {
    const { text } = await streamed(incomplete("max_output_tokens"), { tools });
    expect(text.startsWith(delta)).toBe(true);
    expect(text).not.toContain("response.incomplete");
    const [, failed = "", raised = ""] =
      /^event: response.failed\ndata: (.*)\n\nevent: error\ndata: (.*)\n\n$/.exec(text.slice(delta.length)) ?? [];
    const message = "The answer reached the maximum of 500 output tokens of its output cap, so it is incomplete.";
    expect(JSON.parse(failed)).toMatchObject({
      type: "response.failed",
      response: { status: "failed", error: { code: "invalid_prompt", message } },
    });
    expect(JSON.parse(raised)).toMatchObject({ type: "error", code: "gateway_stream_broken", message });
  });

  it.each([
    ["the client's own", incomplete("max_output_tokens"), { tools, max_output_tokens: 400 }, true],
    ["one of ours without tools", incomplete("max_output_tokens"), {}, true],
    ["no maximum of ours", incomplete("max_output_tokens"), { tools }, false],
    ["a filter of the gateway", incomplete("content_filter"), { tools }, true],
    [
      "its own end",
      ending("response.completed", { id: "r", model: "gpt-4o", status: "completed", output: [], usage }),
      { tools },
      true,
    ],
  ])("passes unchanged where it ends by %s", async (_, last, body, capped) => {
    expect((await streamed(last, body, capped)).text).toBe(delta + last);
  });
});
