import { describe, expect, it } from "vitest";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { answeringGateway } from "../support/answering-gateway.ts";

/* Tests of Responses streams that end at a maximum. */

const ending = (type: string, response: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: 3, response })}\n\n`;
const delta = `event: response.output_text.delta\ndata: ${JSON.stringify({ type: "response.output_text.delta", sequence_number: 2, item_id: "m", output_index: 0, content_index: 0, delta: "hello" })}\n\n`;
const usage = { input_tokens: 8, output_tokens: 500, total_tokens: 508 };
const incomplete = (reason: string) =>
  ending("response.incomplete", {
    id: "r",
    model: "gpt-4o",
    status: "incomplete",
    // The last event repeats the whole output.
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

describe("a Responses stream", () => {
  it("with tools that reaches a maximum set by Farebox ends as a failed stream and is charged as reported", async () => {
    const { text } = await streamed(incomplete("max_output_tokens"), { tools });
    expect(text.startsWith(delta)).toBe(true);
    expect(text).not.toContain("response.incomplete");
    const [, failed = "", raised = ""] =
      /^event: response.failed\ndata: (.*)\n\nevent: error\ndata: (.*)\n\n$/.exec(text.slice(delta.length)) ?? [];
    const message = "The answer is incomplete, because it reached the output cap of 500 tokens.";
    expect(JSON.parse(failed)).toMatchObject({
      type: "response.failed",
      response: { status: "failed", error: { code: "invalid_prompt", message } },
    });
    expect(JSON.parse(raised)).toMatchObject({ type: "error", code: "gateway_stream_broken", message });
  });

  it.each([
    ["at the client's own maximum", incomplete("max_output_tokens"), { tools, max_output_tokens: 400 }, true],
    ["at a maximum set by Farebox, but has no tools", incomplete("max_output_tokens"), {}, true],
    ["at a maximum that Farebox did not set", incomplete("max_output_tokens"), { tools }, false],
    ["at a filter of the gateway", incomplete("content_filter"), { tools }, true],
    [
      "completely",
      ending("response.completed", { id: "r", model: "gpt-4o", status: "completed", output: [], usage }),
      { tools },
      true,
    ],
  ])("passes unchanged if it ends %s", async (_, last, body, capped) => {
    expect((await streamed(last, body, capped)).text).toBe(delta + last);
  });
});
