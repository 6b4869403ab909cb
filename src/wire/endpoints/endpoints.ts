import type { Endpoint } from "../endpoint.ts";
import { audioEndpoints } from "./audio.ts";
import { chatCompletions } from "./chat-completions.ts";
import { completions } from "./completions.ts";
import { embeddings } from "./embeddings.ts";
import { imageEndpoints } from "./images.ts";
import { messages } from "./messages.ts";
import { compactedResponses, responses } from "./responses.ts";

/**
 * All endpoints whose requests are priced and metered.
 *
 * @example
 * const chat = endpoints.find(({ route }) => route === "/v1/chat/completions");
 * const body = { model: "gpt-4o-mini", max_tokens: 20, messages: [{ role: "user", content: "Hello" }] };
 * const read = chat?.readRequest(Buffer.from(JSON.stringify(body)));
 * read?.ok && read.request.size.outputMax; // 20
 */
export const endpoints: readonly Endpoint[] = [
  chatCompletions,
  completions,
  embeddings,
  responses,
  compactedResponses,
  messages,
  ...imageEndpoints,
  ...audioEndpoints,
];
