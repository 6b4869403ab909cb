import { noTokens, promptClasses, type TokenCounts } from "../src/core/usage.ts";
import { Generation, type Arrival } from "./generation.ts";
import { MessageBlocks, type Block } from "./message-blocks.ts";
import { chunk, headOf, namedEvent, type Piece, type Wire } from "./pieces.ts";
import { messagesModels, searchTokens } from "./prices.ts";
import { agentModels, type BilledRun, type Terms } from "./tariffs.ts";
import { promptTokensOfMessages, tokensOf } from "./tokens.ts";
import { iterationOf, promptUsageOf, startUsageOf } from "./vocabularies.ts";
import type { World } from "./world.ts";

/** Request to the Messages API, as far as the gateway reads it. */
export interface MessagesBody {
  readonly thinking?: { readonly budget_tokens: number };
  readonly tools?: readonly { readonly type?: string; readonly max_uses?: number }[];
  readonly speed?: "fast";
  readonly inference_geo?: "us";
}

/** Most searches of a request that does not limit them. */
const searchesMax = 3;

/** Message at the gateway. Its first event states the prompt, and its last usage the output. */
export class MessageGeneration extends Generation {
  readonly served: string;
  readonly choices = 1;
  readonly isBounded: boolean;
  /** Thinking that the request's maximum must exceed; null for none. */
  readonly thinkingBudget: number | null;
  /** True if the gateway received a tool that searches. */
  readonly hasSearch: boolean;
  readonly #name: string;
  readonly #granted: Pick<Terms, "speed" | "geo">;
  /** Terms that the answer does not state. */
  readonly #isSilentOnTerms: boolean;
  /** Prompt of each run of the model. */
  readonly #prompts: TokenCounts[];
  readonly #mayCache: boolean;
  /** True if the usage does not state how long caches are kept. */
  readonly #isUnsplit: boolean;
  readonly #blocks: MessageBlocks;
  readonly #statesStart: boolean;
  #searchesLeft: number;
  #searches = 0;
  #searchesRead = 0;
  /** Output tokens at the end of each run but the last. */
  readonly #runEnds: number[] = [];

  constructor(world: World, wire: Wire, arrival: Arrival) {
    super(world, wire, arrival);
    const { chance } = world;
    const body = JSON.parse(arrival.body.toString()) as MessagesBody;
    const { behavior } = arrival;
    const search = body.tools?.find(({ type }) => type?.startsWith("web_search"));
    this.hasSearch = search !== undefined;
    this.served = chance.happens(0.15) ? chance.pick(messagesModels) : this.asked;
    this.#name = this.served === this.asked ? this.request.model : this.served;
    const usage = behavior.kind === "answers" ? behavior.usage : "reported";
    this.#isSilentOnTerms = usage === "none" || usage === "nonsense" || chance.happens(0.2);
    const isGranted = this.#isSilentOnTerms || chance.happens(0.5);
    this.#granted = { speed: isGranted ? (body.speed ?? null) : null, geo: body.inference_geo ?? null };
    this.thinkingBudget = body.thinking?.budget_tokens ?? null;
    this.#searchesLeft = search === undefined ? 0 : chance.between(0, search.max_uses ?? searchesMax);
    const model = agentModels[this.asked];
    const hasHour = arrival.body.includes('"1h"');
    const hasTerm = (name: "fast" | "us" | undefined) => name === undefined || model?.terms.includes(name) === true;
    this.isBounded =
      (search === undefined || (search.max_uses !== undefined && model?.searchFee != null)) &&
      (!hasHour || model?.hour != null) &&
      hasTerm(body.speed) &&
      hasTerm(body.inference_geo);
    this.#mayCache = arrival.body.includes("cache_control");
    this.#prompts = [this.#firstPrompt(promptTokensOfMessages(arrival.body), arrival.body)];
    this.#isUnsplit = !hasHour && chance.happens(0.2);
    this.#statesStart = usage !== "none" || chance.happens(0.5);
    this.#blocks = new MessageBlocks(chance, {
      hasTools: body.tools !== undefined,
      thinks: this.thinkingBudget !== null,
    });
  }

  get terms(): Terms {
    return { searches: this.#searches, ...this.#granted };
  }

  get termsRead(): Terms {
    return { searches: this.#searchesRead, ...this.#granted };
  }

  /** True if the gateway bills a variant that the price files do not know. */
  get isVariantUnknown(): boolean {
    const known = agentModels[this.asked]?.terms ?? [];
    return [this.#granted.speed, this.#granted.geo].some((name) => name !== null && !known.includes(name));
  }

  /** Only the first run's prompt can be counted without a usage. */
  override get countable(): TokenCounts | null {
    const { billed } = this;
    return billed && { ...billed, ...this.#promptOf(true), output: billed.output, reasoning: billed.reasoning };
  }

  #firstPrompt(total: number, body: Buffer): TokenCounts {
    const { chance } = this.world;
    const cached = this.#mayCache && chance.happens(0.5) ? chance.below(total) : 0;
    const written = this.#mayCache && chance.happens(0.7) ? chance.below(total - cached) : 0;
    const hasShort = body.includes('"ephemeral"}');
    const hour = body.includes('"1h"') ? (hasShort ? chance.below(written + 1) : written) : 0;
    return {
      ...noTokens,
      input: total - cached - written,
      cached_input: cached,
      cache_write: written - hour,
      cache_write_1h: hour,
    };
  }

  /** After a search, the model reads the prompt again, with the results so far. */
  #addRun(): void {
    const { chance } = this.world;
    const [first = noTokens] = this.#prompts;
    const before = this.#prompts.at(-1) ?? first;
    const total = promptClasses.reduce((sum, name) => sum + before[name], 0) + chance.between(1, searchTokens);
    const cached = this.#mayCache ? chance.below(total) : 0;
    this.#prompts.push({ ...noTokens, input: total - cached, cached_input: cached });
    this.#runEnds.push(this.#visible);
    this.#searches++;
    this.#searchesLeft--;
  }

  get #visible(): number {
    return this.written.reduce((sum, text) => sum + tokensOf(text), 0);
  }

  #promptOf(isFirst: boolean): TokenCounts {
    const prompts = isFirst ? this.#prompts.slice(0, 1) : this.#prompts;
    const sum = { ...noTokens };
    for (const prompt of prompts) for (const name of promptClasses) sum[name] += prompt[name];
    return sum;
  }

  protected tokens(texts: readonly string[], hidden: number, excess: number, isRead: boolean): TokenCounts {
    const visible = texts.reduce((sum, text) => sum + tokensOf(text), 0);
    return { ...this.#promptOf(isRead), output: visible + excess, reasoning: Math.max(hidden - visible, 0) };
  }

  /** Writes up to this number of tokens, which the proxy does not read. */
  protected addText(tokensMax: number): void {
    const block = this.#blocks.next({ room: Math.min(tokensMax, this.limit - this.#visible), searchesLeft: 0 });
    if (block !== undefined) this.written[block.index] = block.text;
    this.think();
  }

  /** Adds the next text to a block; undefined if there is no room. A search begins another run of the model. */
  #addBlock(): Block | undefined {
    const room = this.limit - this.#visible;
    const most = this.bursts ? room : Math.min(room, this.world.chance.between(1, 24));
    const block = this.#blocks.next({ room: most, searchesLeft: this.#searchesLeft, isWhole: !this.stream });
    if (block === undefined) return undefined;
    this.written[block.index] = block.counted;
    this.think();
    if (block.kind === "search") {
      this.written[block.index + 1] = "";
      this.#addRun();
    }
    return block;
  }

  protected override writeStart(): boolean {
    const { behavior, world } = this;
    const isBroken = behavior.kind === "cut" || behavior.kind === "silent" || behavior.kind === "reset";
    if (isBroken && world.chance.happens(0.15)) return false;
    const usage = this.#statesStart ? startUsageOf(this.#promptOf(true), this.#startTerms, this.#isUnsplit) : undefined;
    const message = { ...this.#head, content: [], stop_reason: null, ...(usage && { usage }) };
    this.#write("message_start", { message }, () => {
      this.isServedRead = this.served !== this.asked;
      this.isPromptRead = this.#statesStart;
    });
    if (world.chance.happens(0.3)) this.#write("ping", {});
    const isAtOnce = (behavior.kind === "refuses" || behavior.kind === "errors") && behavior.when === "before";
    if (!isAtOnce) return !isBroken || world.chance.happens(0.8);
    this.isBilled = false;
    this.endStream();
    return true;
  }

  get #startTerms() {
    const { speed, geo } = this.#granted;
    // Without a last usage, an estimate above the text would be charged.
    const output_tokens = this.#isUsageCorrect ? this.world.chance.between(1, 8) : 1;
    if (this.#isSilentOnTerms) return { output_tokens };
    return { output_tokens, service_tier: "standard", speed: speed ?? "standard", inference_geo: geo ?? "global" };
  }

  get #head() {
    return { id: "m", type: "message", role: "assistant", model: this.#name };
  }

  #write(type: string, members: object, read?: () => void): void {
    this.wire.write({ kind: "chunk", bytes: namedEvent(type, members), ...(read && { read }) });
  }

  protected writePart(): boolean {
    const block = this.#addBlock();
    if (block === undefined) return false;
    const { index, counted, added } = block;
    if (block.closes !== null) this.#write("content_block_stop", { index: block.closes });
    // A block begins with the name of its tool.
    const opened = block.opens === null ? null : counted.slice(0, counted.length - added.length);
    if (block.opens !== null)
      this.#write("content_block_start", { index, content_block: block.opens }, () => {
        this.#readUpTo(index, opened ?? "");
        if (block.kind === "search") this.#searchesRead++;
      });
    this.#write("content_block_delta", { index, delta: block.delta }, () => {
      this.#readUpTo(index, counted);
      this.longestRead = Math.max(this.longestRead, tokensOf(added));
      this.isUnknownRead ||= block.kind === "wonder";
    });
    if (block.kind !== "search") return true;
    this.#write("content_block_stop", { index });
    this.#write("content_block_start", { index: index + 1, content_block: resultOf(index) });
    this.#write("content_block_stop", { index: index + 1 });
    return true;
  }

  #readUpTo(index: number, text: string): void {
    for (let at = this.read.length; at < index; at++) this.read[at] = "";
    this.read[index] = text;
  }

  protected endStream(): void {
    if (this.isOver) return;
    const { behavior, world } = this;
    if (behavior.kind === "errors") {
      const error = { type: "overloaded_error", message: "Overloaded" };
      return this.finish({ kind: "chunk", bytes: namedEvent("error", { error }) }, { kind: "end" });
    }
    const isFree = behavior.kind === "refuses" && behavior.when === "before";
    const usage = isFree ? { output_tokens: 0 } : this.#endUsage();
    const delta = { stop_reason: behavior.kind === "refuses" ? "refusal" : "end_turn", stop_sequence: null };
    const isCorrect = usage !== undefined && this.#isUsageCorrect;
    const onRead = () => {
      this.isRefusalRead = isFree;
      if (isCorrect && !isFree) this.isReported = true;
    };
    const report: Piece = {
      kind: "chunk",
      bytes: namedEvent("message_delta", { delta, ...(usage && { usage }) }),
      read: onRead,
    };
    const stop: Piece = { kind: "chunk", bytes: namedEvent("message_stop", {}) };
    if (behavior.kind === "repeats")
      return this.finish(report, report, stop, stop, { kind: "end" }, { kind: "broken" }, { kind: "end" });
    if (behavior.kind !== "reordered")
      return this.finish(report, ...(world.chance.happens(0.9) ? [stop] : []), { kind: "end" });
    const early: Piece = { ...report, bytes: namedEvent("message_delta", { delta: {}, ...(usage && { usage }) }) };
    this.finish(early, { kind: "chunk", bytes: namedEvent("message_delta", { delta }) }, stop, { kind: "end" });
  }

  get #isUsageCorrect(): boolean {
    const { behavior } = this;
    return !(behavior.kind === "answers" && (behavior.usage === "none" || behavior.usage === "nonsense"));
  }

  /** Returns the usage of the last event, and decides what is billed. */
  #endUsage(): object | undefined {
    const { behavior, world } = this;
    const { chance } = world;
    if (behavior.kind === "answers" && behavior.usage === "none") return undefined;
    if (behavior.kind === "answers" && behavior.usage === "nonsense") return { input_tokens: -1, output_tokens: 2.5 };
    if (behavior.kind === "answers" && behavior.usage === "excessive") this.excess = this.limit + 17;
    const tokens = this.tokensWritten;
    const hasIterations = chance.happens(this.#searches > 0 ? 0.6 : 0.2);
    if (hasIterations) this.runs = this.#runsOf(tokens);
    const searches = this.#searches > 0 || chance.happens(0.2);
    return {
      ...promptUsageOf(tokens, this.#searches > 0 ? "whole" : chance.pick(["whole", "null", "absent", "zero"])),
      output_tokens: tokens.output + tokens.reasoning,
      ...(chance.happens(0.5) && { output_tokens_details: { thinking_tokens: tokens.reasoning } }),
      ...(searches && { server_tool_use: { web_search_requests: this.#searches, web_fetch_requests: 0 } }),
      ...(this.runs && {
        iterations: this.runs.map(({ tokens: run, model }) => iterationOf(run, model, this.#kindOf(run))),
      }),
    };
  }

  /** Runs in addition to the attempts, with their kind. */
  readonly #extras = new Map<TokenCounts, "compaction" | "advisor_message">();

  #kindOf(run: TokenCounts): string {
    return this.#extras.get(run) ?? "message";
  }

  #runsOf({ output, reasoning }: TokenCounts): BilledRun[] {
    const { chance } = this.world;
    const ends = [0, ...this.#runEnds];
    const attempts = this.#prompts.map((prompt, index): BilledRun => {
      const [start = 0, end] = [ends[index], ends[index + 1]];
      const run = end === undefined ? { output: output - start, reasoning } : { output: end - start };
      return { tokens: { ...prompt, ...run }, model: null };
    });
    const extras: BilledRun[] = [];
    const extra = () => ({ ...noTokens, input: chance.between(1, 90), output: chance.between(1, 20) });
    if (chance.happens(0.25)) extras.push({ tokens: extra(), model: null });
    if (chance.happens(0.25)) {
      const model = chance.pick(messagesModels);
      extras.push({ tokens: extra(), model });
    }
    for (const { tokens, model } of extras) this.#extras.set(tokens, model === null ? "compaction" : "advisor_message");
    this.hasExtraRuns = extras.length > 0;
    return [...extras, ...attempts];
  }

  protected answer(): void {
    const { behavior, world } = this;
    if (behavior.kind === "errors") {
      this.isBilled = false;
      const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
      return this.finish({ kind: "head", head: headOf(529, "application/json") }, chunk(JSON.stringify(error)), {
        kind: "end",
      });
    }
    const isFree = behavior.kind === "refuses" && behavior.when === "before";
    if (isFree) this.isBilled = false;
    const blocks: object[] = [];
    let isUnknown = false;
    for (let left = isFree ? 0 : world.chance.between(1, 5); left > 0; left--) {
      const block = this.#addBlock();
      if (block === undefined) break;
      blocks[block.index] = block.whole;
      if (block.kind === "search") blocks.push(resultOf(block.index));
      isUnknown ||= block.kind === "wonder";
    }
    const usage = this.#wholeUsage(isFree);
    const stop_reason = behavior.kind === "refuses" ? "refusal" : "end_turn";
    const whole = JSON.stringify({ ...this.#head, content: blocks, stop_reason, ...(usage && { usage }) });
    const isUsageCorrect = usage !== undefined && this.#isUsageCorrect && !isFree;
    this.finishWhole(whole, () => {
      this.isServedRead = this.served !== this.asked;
      this.isPromptRead = usage !== undefined && this.#isUsageCorrect;
      this.isRefusalRead = isFree;
      this.#searchesRead = this.#searches;
      this.read = [...this.written];
      this.isUnknownRead ||= isUnknown;
      if (isUsageCorrect) this.isReported = true;
    });
  }

  #wholeUsage(isFree: boolean): object | undefined {
    if (isFree) return { ...startUsageOf(this.#promptOf(true), this.#startTerms, this.#isUnsplit), output_tokens: 0 };
    const usage = this.#endUsage();
    if (usage === undefined || !this.#isUsageCorrect) return usage;
    const { output_tokens: _, ...start } = startUsageOf(this.#promptOf(false), this.#startTerms, this.#isUnsplit);
    // Only in a stream does the last usage leave out what the first one states.
    return { ...usage, ...start };
  }
}

function resultOf(index: number): object {
  return {
    type: "web_search_tool_result",
    tool_use_id: `s${index}`,
    content: [{ type: "web_search_result", title: "a ship" }],
  };
}
