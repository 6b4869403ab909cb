import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LoadedCatalogue } from "../../../../src/catalogue/catalogue.ts";
import { loadCatalogue } from "../../../../src/catalogue/load.ts";
import { promptBound } from "../../../../src/core/bounds.ts";
import { countImages } from "../../../../src/core/prompt-text.ts";
import { scaleTokens } from "../../../../src/core/usage.ts";
import { createTokenCounter } from "../../../../src/platform/tokens/token-counter.ts";
import { chatCompletions } from "../../../../src/wire/endpoints/chat-completions.ts";
import { responses } from "../../../../src/wire/endpoints/responses.ts";
import { expectCatalogue, pricing, today } from "../../../support/example-catalogue.ts";
import { imageUrl } from "./image-header.ts";

/** A published request with the prompt tokens that the API reported. */
interface Published {
  readonly title: string;
  readonly source: string;
  readonly endpoint: "chat" | "responses";
  readonly tokens: number;
  readonly body: { readonly model: string };
}

const file = new URL("../../../fixtures/published-counts/requests.ndjson", import.meta.url);
const published = readFileSync(file, "utf8")
  .trim()
  .split("\n")
  .map((line): Published => JSON.parse(line));
const hasImage = (each: Published) => JSON.stringify(each.body).includes("image_url");

const counter = createTokenCounter();
afterAll(() => counter[Symbol.asyncDispose]());
let catalogue: LoadedCatalogue;
beforeAll(async () => {
  catalogue = expectCatalogue(await loadCatalogue({ shipped: pricing }));
});

/** Returns the tokens posted for the prompt if the gateway reports nothing, and the most that the prompt can have. */
async function counted({ endpoint, body }: Published): Promise<{ tokens: number; bound: number }> {
  const text = JSON.stringify(body).replaceAll(/"url":"(\w+ \d+x\d+)"/g, (_, image) => `"url":"${imageUrl(image)}"`);
  const bytes = Buffer.from(text);
  const read = (endpoint === "chat" ? chatCompletions : responses).readRequest(bytes);
  const model = catalogue.find(body.model, today);
  if (!read.ok || model === undefined) throw new Error(`not read: ${body.model}`);
  const prompt = read.request.prompt.text(bytes);
  if (prompt.kind !== "chat") throw new Error("no chat");
  const count = await counter.countChat(prompt.chat, model.encoding, undefined, model.promptForm);
  if (!count.ok) throw new Error(count.reason);
  const images = countImages(prompt.chat.images, read.request.size.imageParts, model);
  if (images.unsized > 0) throw new Error("an image has no size");
  return {
    tokens: scaleTokens(count.tokens, model.errorFactor) + images.tokens,
    bound: promptBound(read.request.size, model),
  };
}

describe("counted tokens match published ones", () => {
  it.each(published.filter((each) => !hasImage(each)))("within 3%: $title ($source)", async (each) => {
    const { tokens, bound } = await counted(each);
    expect(Math.abs(tokens / each.tokens - 1), `${tokens} for ${each.tokens}`).toBeLessThanOrEqual(0.03);
    expect(bound).toBeGreaterThanOrEqual(each.tokens);
  });

  it.each(published.filter(hasImage))("within 10%, with an image: $title ($source)", async (each) => {
    const { tokens, bound } = await counted(each);
    expect(Math.abs(tokens / each.tokens - 1), `${tokens} for ${each.tokens}`).toBeLessThanOrEqual(0.1);
    expect(bound).toBeGreaterThanOrEqual(each.tokens);
  });

  /** From the OpenAI developer forum, topic 1375117. */
  it.each([
    ["테스트 ", 39_235],
    ["test ", 3_191],
  ])("except for unpublished parts: the results of three parallel calls, each 1,000 times %j", async (word, tokens) => {
    const calls = ["a", "b", "c"].map((id) => ({
      id,
      type: "function",
      function: { name: "read_text", arguments: "{}" },
    }));
    const results = calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: word.repeat(1000) }));
    const messages = [{ role: "user", content: "Read it." }, { role: "assistant", tool_calls: calls }, ...results];
    const body = { model: "gpt-4.1", messages };
    const { tokens: found, bound } = await counted({ title: "", source: "", endpoint: "chat", tokens, body });
    // The published request has another prompt and a tool, which are not published.
    expect(found / tokens).toBeGreaterThan(0.95);
    expect(found).toBeLessThan(tokens);
    expect(bound).toBeGreaterThanOrEqual(tokens);
  });
});
