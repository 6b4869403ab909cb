import { isObject } from "../wire/json.ts";
import { composeAnswer, reportedUsage, textOf, tokensOf, type Answer } from "./answer.ts";
import type { Consumption, RunTokens } from "./billing.ts";
import type { Call } from "./call.ts";
import { fieldsIn, type Fields } from "./chat-request.ts";
import { plainConsumption, type Written } from "./consumption.ts";
import type { MessagesRequest } from "./messages-request.ts";
import { digest, randomFrom } from "./random.ts";
import { numberOf, type Scenario } from "./scenarios.ts";
import { prose, tokenPieces, type Piece } from "./text.ts";

/** Block of an answer's content. A search consists of the call and its results. */
export type AnswerBlock =
  | { readonly type: "thinking"; readonly pieces: readonly Piece[]; readonly isShown: boolean }
  | { readonly type: "text"; readonly pieces: readonly Piece[] }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly pieces: readonly Piece[] }
  | { readonly type: "search"; readonly id: string; readonly pieces: readonly Piece[]; readonly results: Fields };

/** Complete answer of /v1/messages, before it is written as a stream or as one object. */
export interface MessageAnswer {
  readonly answer: Answer;
  readonly id: string;
  readonly blocks: readonly AnswerBlock[];
  readonly stopReason: "end_turn" | "max_tokens" | "tool_use" | "refusal";
  /** Runs of the model: each web search ends one, and the next one reads the prompt again with the results. */
  readonly runs: readonly RunTokens[];
  /** Thinking tokens of which the answer has no block. */
  readonly hiddenTokens: number;
  /** Usage that the answer reports at its start and at its end; undefined if it reports none. */
  readonly startUsage: Fields | undefined;
  readonly usage: Fields | undefined;
  /** Writes the prompt to the cache. */
  readonly store: () => void;
}

/** Generates an answer. Its text depends only on the seed and the bytes of the request. */
export function composeMessage(call: Call, request: MessagesRequest): MessageAnswer {
  const { scenario, shared } = call;
  const thinkingTokens = Math.min(
    numberOf(scenario, "reasoning") ?? (request.thinking === undefined ? 0 : 12),
    request.maxTokens,
  );
  const seed = digest(shared.options.seed, call.seen.body, "message");
  const searches = searchesOf(scenario, request, seed);
  const wanted = "tool-calls" in scenario ? { ...request, tool: request.firstTool } : request;
  const answer = composeAnswer(call, { ...wanted, maxTokens: request.maxTokens - thinkingTokens });
  const { blocks: said, stopReason } = lastBlocks(scenario, answer, seed);
  const thought: AnswerBlock[] =
    request.thinking === undefined || thinkingTokens === 0
      ? []
      : [{ type: "thinking", pieces: prose(randomFrom(seed)).take(thinkingTokens).toArray(), ...request.thinking }];
  const blocks = [...thought, ...searches, ...said];
  const hiddenTokens = thought.length > 0 ? 0 : thinkingTokens;
  const cache = shared.promptCache.use(request.model, request.blocks);
  const prompt = statedPrompt(scenario, request.promptTokens) ?? cache.tokens;
  const outputs = outputsOf(blocks, hiddenTokens);
  const runs = runsOf(prompt, outputs);
  const usage = usageOf(request, runs, { thinkingTokens, searches: searches.length });
  const {
    output_tokens_details: _,
    server_tool_use: __,
    iterations: ___,
    ...start
  } = usageOf(request, runs.slice(0, 1), { thinkingTokens, searches: 0 });
  return {
    answer,
    id: answer.id.replace("chatcmpl-", "msg_"),
    blocks,
    stopReason,
    runs,
    hiddenTokens,
    startUsage: reportedUsage(scenario, { ...start, output_tokens: 1 }),
    usage: reportedUsage(scenario, usage),
    store: cache.store,
  };
}

/** Returns the blocks after all searches: the text or the tool calls, or what was written before a refusal. */
function lastBlocks(scenario: Scenario, answer: Answer, seed: string): Pick<MessageAnswer, "blocks" | "stopReason"> {
  const [choice] = answer.choices;
  const refusedAfter = numberOf(scenario, "refusal");
  if (choice === undefined) return { blocks: [], stopReason: "end_turn" };
  if (refusedAfter !== undefined) {
    const pieces = choice.pieces.slice(0, refusedAfter);
    return { blocks: pieces.length === 0 ? [] : [{ type: "text", pieces }], stopReason: "refusal" };
  }
  const listed = scenario["tool-calls"];
  if (listed) {
    const calls = fieldsIn(JSON.parse(listed)).map(({ name, input }, index) => ({
      type: "tool_use" as const,
      id: `toolu_${digest(seed, index).slice(0, 24)}`,
      name: String(name),
      pieces: tokenPieces(JSON.stringify(input)),
    }));
    return { blocks: calls, stopReason: "tool_use" };
  }
  const stopReason = ({ stop: "end_turn", length: "max_tokens", tool_calls: "tool_use" } as const)[choice.finishReason];
  const { tool, pieces } = choice;
  if (tool !== undefined) {
    const id = tool.id.replace("call_", "toolu_");
    return { blocks: [{ type: "tool_use", id, name: tool.name, pieces }], stopReason };
  }
  return { blocks: pieces.length === 0 ? [] : [{ type: "text", pieces }], stopReason };
}

/** Tokens that the results of a search add to the prompt. */
const tokensOfResults = 500;

function searchesOf(scenario: Scenario, { searchesMax }: MessagesRequest, seed: string): AnswerBlock[] {
  const count = Math.min(numberOf(scenario, "searches") ?? 0, searchesMax);
  return Array.from({ length: count }, (_, index) => ({
    type: "search" as const,
    id: `srvtoolu_${digest(seed, "search", index).slice(0, 24)}`,
    pieces: tokenPieces(JSON.stringify({ query: `harbour ${index}` })),
    results: {
      type: "web_search_result",
      url: `https://example.com/${index}`,
      title: "Harbour",
      encrypted_content: digest(seed, "content", index),
      page_age: null,
    },
  }));
}

/** Returns the prompt that the scenario states; undefined if the real one counts. */
function statedPrompt(scenario: Scenario, counted: number): Omit<RunTokens, "output"> | undefined {
  const names = ["prompt", "cached", "written", "written-1h"] as const;
  if (!names.some((name) => name in scenario)) return undefined;
  const [total = counted, cached = 0, written = 0, writtenForAnHour = 0] = names.map((name) =>
    numberOf(scenario, name),
  );
  return { input: Math.max(total - cached - written - writtenForAnHour, 0), cached, written, writtenForAnHour };
}

/** Returns the output of each run, in tokens. */
function outputsOf(blocks: readonly AnswerBlock[], hiddenTokens: number): number[] {
  const outputs: number[] = [];
  let output = hiddenTokens;
  for (const block of blocks) {
    output += tokensOf(block.pieces);
    if (block.type !== "search") continue;
    outputs.push(output);
    output = 0;
  }
  return [...outputs, output];
}

function runsOf(prompt: Omit<RunTokens, "output">, outputs: readonly number[]): RunTokens[] {
  let added = 0;
  return outputs.map((output, index) => {
    const { cached, written, writtenForAnHour } = prompt;
    const run =
      index === 0
        ? { ...prompt, output }
        : {
            input: prompt.input + added,
            cached: cached + written + writtenForAnHour,
            written: 0,
            writtenForAnHour: 0,
            output,
          };
    added += output + tokensOfResults;
    return run;
  });
}

function usageOf(
  { fast, inUs }: MessagesRequest,
  runs: readonly RunTokens[],
  { thinkingTokens, searches }: { readonly thinkingTokens: number; readonly searches: number },
): Fields {
  return {
    ...tokensAsReported(sumOf(runs)),
    output_tokens_details: { thinking_tokens: thinkingTokens },
    server_tool_use: searches === 0 ? null : { web_search_requests: searches, web_fetch_requests: 0 },
    service_tier: "standard",
    inference_geo: inUs ? "us" : "global",
    ...(fast && { speed: "fast" }),
    ...(runs.length > 1 && { iterations: runs.map((run) => ({ type: "message", ...tokensAsReported(run) })) }),
  };
}

function tokensAsReported({ input, cached, written, writtenForAnHour, output }: RunTokens): Fields {
  return {
    input_tokens: input,
    cache_creation_input_tokens: written + writtenForAnHour,
    cache_read_input_tokens: cached,
    cache_creation: { ephemeral_5m_input_tokens: written, ephemeral_1h_input_tokens: writtenForAnHour },
    output_tokens: output,
  };
}

function sumOf(runs: readonly RunTokens[]): RunTokens {
  const sum = { input: 0, cached: 0, written: 0, writtenForAnHour: 0, output: 0 };
  for (const run of runs) for (const name of Object.keys(sum) as (keyof RunTokens)[]) sum[name] += run[name];
  return sum;
}

/**
 * Returns the billed quantities of an answer: all of a complete one, otherwise the runs that began and the written
 * tokens. Returns undefined for a refusal without output, which is not billed.
 */
export function consumptionOfMessage(
  call: Call,
  { fast, inUs }: MessagesRequest,
  { answer, id, stopReason, ...made }: MessageAnswer,
  stream?: Written,
): Consumption | undefined {
  const isWhole = stream === undefined || stream.whole || "billed" in call.scenario;
  const runs = isWhole && !("endless" in call.scenario) ? [...made.runs] : begunRuns(made, stream);
  const last = runs.pop();
  if (last !== undefined) runs.push({ ...last, output: last.output + (numberOf(call.scenario, "overbill") ?? 0) });
  const { input, cached, written, writtenForAnHour } = sumOf(runs);
  const output = sumOf(made.runs).output;
  if (stopReason === "refusal" && output === 0) return undefined;
  const used = plainConsumption(call, {
    completionId: id,
    model: answer.billedModel,
    stream: stream !== undefined,
    promptTokens: input + cached + written + writtenForAnHour,
    cachedTokens: cached,
    message: { runs, searches: runs.length - 1, fast, inUs },
    deliveredTokens: stream?.delivered ?? null,
    cutByGateway: stream?.cutByGateway ?? false,
  });
  return { ...used, completionTokens: sumOf(runs).output };
}

function begunRuns(
  { runs, hiddenTokens }: Pick<MessageAnswer, "runs" | "hiddenTokens">,
  { delivered, searches }: Pick<Written, "delivered" | "searches"> = { delivered: 0, searches: 0 },
): RunTokens[] {
  const begun = runs.slice(0, searches + 1);
  const last = begun.pop();
  const left = delivered + (delivered > 0 ? hiddenTokens : 0) - sumOf(begun).output;
  return last === undefined ? begun : [...begun, { ...last, output: left }];
}

/** Builds the answer as one object. */
export function messageOf(message: MessageAnswer): Fields {
  return {
    ...messageHead(message),
    content: message.blocks.flatMap(contentOf),
    stop_reason: message.stopReason,
    ...(message.usage === undefined ? {} : { usage: message.usage }),
  };
}

/** Returns the members that an answer has from its beginning. */
export function messageHead({ id, answer }: MessageAnswer): Fields {
  return {
    id,
    type: "message",
    role: "assistant",
    model: answer.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  };
}

/** Returns a block as the answer contains it. A search is two of them. */
function contentOf(block: AnswerBlock): Fields[] {
  const text = textOf(block);
  switch (block.type) {
    case "thinking":
      return [{ type: "thinking", thinking: block.isShown ? text : "", signature: signatureOf(block) }];
    case "text":
      return [{ type: "text", text }];
    case "tool_use":
      return [{ type: "tool_use", id: block.id, name: block.name, input: inputFrom(text) }];
    case "search":
      return [
        { type: "server_tool_use", id: block.id, name: "web_search", input: inputFrom(text) },
        { type: "web_search_tool_result", tool_use_id: block.id, content: [block.results] },
      ];
  }
}

export function signatureOf({ pieces }: Pick<AnswerBlock, "pieces">): string {
  return Buffer.from(digest(textOf({ pieces })), "hex").toString("base64");
}

/** Parses the input of a tool. An input that max_tokens cut off has no members. */
function inputFrom(text: string): Fields {
  try {
    const input: unknown = JSON.parse(text);
    return isObject(input) ? input : {};
  } catch {
    return {};
  }
}
