import { usdNumber } from "../core/money.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import type { ChargePosted } from "../ports/events.ts";
import type { SpanFacts } from "../ports/tracing.ts";
import type { Attributes } from "./sdk.ts";

/*
 * Attribute names of OpenTelemetry's semantic conventions for generative AI (status: development), and Farebox's own
 * names, which begin with `farebox.`. docs/monitoring.md lists all of them.
 */

/** Operation and kind of output by route. Other routes have no operation. */
const operations: Readonly<Record<string, { readonly name: string; readonly output?: string }>> = {
  "/v1/chat/completions": { name: "chat" },
  "/v1/responses": { name: "chat" },
  "/v1/responses/compact": { name: "chat" },
  "/v1/completions": { name: "text_completion" },
  "/v1/embeddings": { name: "embeddings" },
  "/v1/images/generations": { name: "generate_content", output: "image" },
  "/v1/images/edits": { name: "generate_content", output: "image" },
  "/v1/images/variations": { name: "generate_content", output: "image" },
  "/v1/audio/speech": { name: "generate_content", output: "speech" },
  "/v1/audio/transcriptions": { name: "generate_content", output: "text" },
  "/v1/audio/translations": { name: "generate_content", output: "text" },
};

/** Name of OpenAI's API in the conventions. The gateway offers the models of all providers through this API. */
const provider = "openai";
/** Lowest status of an error. */
const errorStatus = 400;

/**
 * Returns the name of a span. The name contains only models of the catalogue, so that clients cannot create an
 * unlimited number of names.
 */
export function spanName(method: string, route: string, { model, modelId }: SpanFacts): string {
  const operation = operations[route];
  if (operation === undefined) return `${method} ${route}`;
  return model === undefined ? operation.name : `${operation.name} ${modelId ?? "other"}`;
}

/** Returns the attributes that are known when a request arrives. */
export function firstAttributes(id: string, method: string, route: string, gateway: URL): Attributes {
  const operation = operations[route];
  return {
    ...(operation && { "gen_ai.operation.name": operation.name, "gen_ai.provider.name": provider }),
    ...(operation?.output && { "gen_ai.output.type": operation.output }),
    "http.request.method": method,
    "http.route": route,
    "server.address": gateway.hostname,
    "server.port": Number(gateway.port) || (gateway.protocol === "https:" ? 443 : 80),
    "farebox.request_id": id,
  };
}

/**
 * Returns the value of `error.type`: the code of a refusal, `client_left` if there is no status, or a status of at
 * least 400; null if there is no error.
 */
export function errorOf(status: number | null, { refusal }: SpanFacts): string | null {
  if (refusal !== undefined) return refusal;
  if (status === null) return "client_left";
  return status >= errorStatus ? String(status) : null;
}

/** Returns the attributes that are known when a request has been answered and its charge is settled. */
export function lastAttributes(status: number | null, facts: SpanFacts, posted: ChargePosted | null): Attributes {
  const { key, team, model, servedModel, stream, firstTokenMs, refusal } = facts;
  return {
    ...(model !== undefined && { "gen_ai.request.model": model }),
    ...(servedModel && { "gen_ai.response.model": servedModel }),
    ...(stream === true && { "gen_ai.request.stream": true }),
    ...(stream === true && firstTokenMs != null && { "gen_ai.response.time_to_first_chunk": firstTokenMs / 1000 }),
    ...(posted && postedAttributes(posted)),
    ...(status !== null && { "http.response.status_code": status }),
    ...(key && { "farebox.key": key }),
    ...(team && { "farebox.team": team }),
    ...(refusal && { "farebox.refusal": refusal }),
  };
}

function postedAttributes({ cost, source, tokens }: ChargePosted): Attributes {
  const [input, output] = [promptTotal(tokens), completionTotal(tokens)];
  const cacheWrites = tokens.cache_write + tokens.cache_write_1h;
  return {
    ...(cost !== null && { "farebox.cost_usd": usdNumber(cost) }),
    "farebox.source": source,
    ...(input + output > 0 && { "gen_ai.usage.input_tokens": input, "gen_ai.usage.output_tokens": output }),
    ...(tokens.cached_input > 0 && { "gen_ai.usage.cache_read.input_tokens": tokens.cached_input }),
    ...(cacheWrites > 0 && { "gen_ai.usage.cache_write.input_tokens": cacheWrites }),
    ...(tokens.reasoning > 0 && { "gen_ai.usage.reasoning.output_tokens": tokens.reasoning }),
  };
}
