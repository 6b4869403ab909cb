import { describe, expect, it } from "vitest";
import { readMessagesRequest } from "../../../src/wire/endpoints/messages.ts";
import { readResponsesRequest } from "../../../src/wire/endpoints/responses.ts";

/*
 * Tests of media inside other parts of a prompt: their data is bounded by the part, so it is no text. If it were, its
 * words would count as words of the prompt, and the hold would leave out as many bytes of other text.
 */

const payload = "the1and2".repeat(20);
const data = { type: "base64", media_type: "image/png", data: payload };
const image = { type: "image", source: data };

describe("media inside a block of a message", () => {
  it.each([
    ["a document", { type: "document", title: "kept", source: { type: "content", content: [image] } }],
    ["a document in a result", { type: "document", title: "kept", source: { ...data, media_type: "application/pdf" } }],
    ["an address", { type: "document", title: "kept", source: { type: "url", url: payload } }],
    ["a result of a server", { type: "mcp_tool_result", tool_use_id: "kept", content: [image] }],
    ["a single part", { type: "mcp_tool_result", tool_use_id: "kept", content: image }],
    ["a search result", { type: "search_result", title: "kept", source: "x", content: [{ ...image }] }],
  ])("is no text: %s", (_, block) => {
    const tool = { type: "tool_result", tool_use_id: "t", content: [block] };
    const body = Buffer.from(
      JSON.stringify({ model: "m", max_tokens: 1, messages: [{ role: "user", content: [block, tool] }] }),
    );
    const read = readMessagesRequest(body);
    if (!read.ok) throw new Error(JSON.stringify(read.refusal));
    const text = JSON.stringify(read.request.prompt.text(body));
    expect(text.match(/kept/g)).toHaveLength(2);
    expect(text).not.toContain(payload);
    expect(read.request.size.textBytes).toBe(body.length - 2 * payload.length);
  });
});

describe("media inside an item of a response", () => {
  it.each([
    ["input_image", { type: "input_image", image_url: payload }],
    ["input_audio", { type: "input_audio", input_audio: { data: payload, format: "wav" } }],
    ["input_file", { type: "input_file", file_data: payload }],
  ])("is no text: %s", (_, part) => {
    const items = [
      { type: "local_shell_call_output", call_id: "c", output: [part, { type: "input_text", text: "kept" }] },
      { type: "reasoning", summary: [], content: [part, { type: "reasoning_text", text: "kept" }] },
    ];
    const body = Buffer.from(JSON.stringify({ model: "m", input: items }));
    const read = readResponsesRequest(body);
    if (!read.ok) throw new Error(JSON.stringify(read.refusal));
    const text = JSON.stringify(read.request.prompt.text(body));
    expect(text.match(/kept/g)).toHaveLength(2);
    expect(text).not.toContain(payload);
  });
});
