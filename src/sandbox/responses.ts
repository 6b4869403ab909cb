import { isObject } from "../wire/json.ts";
import { textOf, tokensOf, type Answer, type Choice } from "./answer.ts";
import {
  asksForJson,
  count,
  fieldsIn,
  forcedTool,
  marker,
  promptTokens,
  readBody,
  type ChatRequest,
  type Fields,
} from "./chat-request.ts";
import type { TextForm } from "./chat.ts";
import type { Scenario } from "./scenarios.ts";
import { interleaved, type StreamEvent } from "./stream-events.ts";

/** Form of `POST /v1/responses`, which has items as input and output, and typed events. */
export const responsesForm: TextForm = {
  read,
  body: (answer, request) => responseOf(answer, whole(answer, request)),
  events,
};

/** Form of `POST /v1/responses/compact`, whose answer is one encrypted item. */
export const compactionForm: TextForm = { read, body: compactionOf, events };

function compactionOf(answer: Answer): Fields {
  return {
    id: answer.id.replace("chatcmpl-", "resp_"),
    object: "response.compaction",
    created_at: answer.created,
    output: [compactionItem(answer)],
    usage: usageOf(answer),
  };
}

function compactionItem(answer: Answer): Fields {
  const [choice] = answer.choices;
  const encrypted_content = Buffer.from(choice === undefined ? "" : textOf(choice)).toString("base64");
  return { type: "compaction", id: answer.id.replace("chatcmpl-", "cmp_"), encrypted_content };
}

function read(bytes: Buffer): ChatRequest | string {
  const parsed = readBody(bytes);
  if (typeof parsed === "string") return parsed;
  const { model, input, instructions, tools, text, tool_choice: choice } = parsed;
  const items: readonly Fields[] = typeof input === "string" ? [{ role: "user", content: input }] : fieldsIn(input);
  const system = typeof instructions === "string" ? [{ role: "system", content: instructions }] : [];
  const format = isObject(text) ? text["format"] : undefined;
  return {
    model,
    stream: parsed["stream"] === true,
    includeUsage: true,
    choices: 1,
    maxTokens: count(parsed["max_output_tokens"]),
    json: asksForJson(format),
    logprobs: false,
    // In this interface, an entry of `tools` is itself the definition of the function.
    tool: forcedTool(fieldsIn(tools), choice, isObject(choice) ? choice["name"] : undefined),
    promptTokens: promptTokens([...system, ...items], tools),
    compacts: items.at(-1)?.["type"] === "compaction_trigger",
    scenario: bytes.includes("#sandbox") ? marker(items.at(-1)?.["content"]) : undefined,
  };
}

interface Progress {
  readonly status: "in_progress" | "completed" | "incomplete";
  readonly output: readonly Fields[];
  readonly usage: Fields | null;
}

function whole(answer: Answer, { compacts }: ChatRequest): Progress {
  const [choice] = answer.choices;
  if (compacts === true) return { status: "completed", output: [compactionItem(answer)], usage: usageOf(answer) };
  const status = choice?.finishReason === "length" ? "incomplete" : "completed";
  return { status, output: choice === undefined ? [] : [itemOf(answer, choice, status)], usage: usageOf(answer) };
}

function responseOf(answer: Answer, { status, output, usage }: Progress): Fields {
  return {
    id: answer.id.replace("chatcmpl-", "resp_"),
    object: "response",
    created_at: answer.created,
    status,
    background: false,
    error: null,
    incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
    instructions: null,
    max_output_tokens: null,
    metadata: {},
    model: answer.model,
    output,
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    service_tier: "default",
    store: true,
    temperature: 1,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_p: 1,
    truncation: "disabled",
    usage,
    user: null,
  };
}

function itemOf(answer: Answer, choice: Choice, status: Progress["status"], text = textOf(choice)): Fields {
  if (choice.tool !== undefined) {
    const { id, name, isCustom } = choice.tool;
    const call = { call_id: id, name, status };
    return isCustom
      ? { type: "custom_tool_call", id: id.replace("call", "ctc"), ...call, input: text }
      : { type: "function_call", id: id.replace("call", "fc"), ...call, arguments: text };
  }
  const content = status === "in_progress" ? [] : [partOf(text)];
  return { type: "message", id: answer.id.replace("chatcmpl-", "msg_"), role: "assistant", status, content };
}

function partOf(text: string): Fields {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

/** Returns the usage under the names of this interface. Usage from a scenario stays unchanged. */
function usageOf({ usage }: Answer): Fields | null {
  if (usage === undefined || !("prompt_tokens" in usage)) return usage ?? null;
  const {
    prompt_tokens,
    completion_tokens,
    total_tokens,
    prompt_tokens_details: given,
    completion_tokens_details: made,
  } = usage;
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: { cached_tokens: isObject(given) ? given["cached_tokens"] : 0 },
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: isObject(made) ? made["reasoning_tokens"] : 0 },
    total_tokens,
  };
}

function* events(answer: Answer, request: ChatRequest, scenario: Scenario): Generator<StreamEvent> {
  let number = 0;
  const event = (kind: StreamEvent["kind"], name: string, fields: Fields, tokens = 0): StreamEvent => ({
    kind,
    name,
    tokens,
    data: JSON.stringify({ type: name, sequence_number: number++, ...fields }),
  });
  const begun = responseOf(answer, { status: "in_progress", output: [], usage: null });
  yield event("role", "response.created", { response: begun });
  yield event("role", "response.in_progress", { response: begun });
  const [choice] = answer.choices;
  if (choice === undefined) return;
  if (request.compacts === true) {
    const done = whole(answer, request);
    const [item] = done.output;
    yield event("delta", "response.output_item.done", { output_index: 0, item }, tokensOf(choice.pieces));
    yield event("done", "response.completed", { response: responseOf(answer, done) });
    return;
  }
  const item = itemOf(answer, choice, "in_progress", "");
  yield event("role", "response.output_item.added", { output_index: 0, item });
  const at = { item_id: item["id"], output_index: 0, ...(choice.tool === undefined && { content_index: 0 }) };
  const textEvent =
    choice.tool === undefined
      ? "output_text"
      : choice.tool.isCustom
        ? "custom_tool_call_input"
        : "function_call_arguments";
  if (choice.tool === undefined) yield event("role", "response.content_part.added", { ...at, part: partOf("") });
  for (const [, pieces] of interleaved(answer, scenario)) {
    yield event(
      "delta",
      `response.${textEvent}.delta`,
      { ...at, delta: textOf({ pieces }), ...(choice.tool === undefined && { logprobs: [] }) },
      tokensOf(pieces),
    );
  }
  if ("no-finish" in scenario) return;
  const text = textOf(choice);
  const { status, output, usage } = whole(answer, request);
  yield event(
    "role",
    `response.${textEvent}.done`,
    choice.tool === undefined
      ? { ...at, text, logprobs: [] }
      : { ...at, [choice.tool.isCustom ? "input" : "arguments"]: text },
  );
  if (choice.tool === undefined) yield event("role", "response.content_part.done", { ...at, part: partOf(text) });
  yield event("role", "response.output_item.done", { output_index: 0, item: output[0] });
  const failed = "failed" in scenario;
  const response = failed
    ? {
        ...responseOf(answer, { status: "incomplete", output, usage: null }),
        status: "failed",
        error: { code: "server_error", message: "The model failed." },
      }
    : responseOf(answer, { status, output, usage });
  yield event("done", `response.${failed ? "failed" : status}`, { response });
}
