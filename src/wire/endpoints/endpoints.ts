import type { Endpoint } from "../endpoint.ts";
import { audioEndpoints } from "./audio.ts";
import { chatCompletions } from "./chat-completions.ts";
import { completions } from "./completions.ts";
import { embeddings } from "./embeddings.ts";
import { imageEndpoints } from "./images.ts";
import { responses } from "./responses.ts";

/** All endpoints whose requests are priced and metered. */
export const endpoints: readonly Endpoint[] = [
  chatCompletions,
  completions,
  embeddings,
  responses,
  ...imageEndpoints,
  ...audioEndpoints,
];
