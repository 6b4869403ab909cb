import { noTokens, type TokenCounts } from "../src/core/usage.ts";
import { Generation, type Arrival } from "./generation.ts";
import { deltaOf, isUnknown, membersOf, messageOf, type Member, type Part } from "./output-members.ts";
import { chunk, event, type Piece, type Wire } from "./pieces.ts";
import { models } from "./prices.ts";
import { plainTerms, type BilledRun } from "./tariffs.ts";
import { promptTokensOf, tokensOf } from "./tokens.ts";
import { hasCacheWrites, runsOf, usageMembersOf, vocabularyOf, type Vocabulary } from "./vocabularies.ts";
import type { World } from "./world.ts";

interface ChatBody {
  readonly n?: number;
  readonly stream_options?: { readonly include_usage?: boolean };
}

/** Chat completion at the gateway. */
export class ChatGeneration extends Generation {
  readonly #chat: ChatBody;
  readonly #prompt: number;
  readonly #cached: number;
  readonly #cacheWritten: number;
  readonly #members: readonly [Member, ...Member[]];
  readonly #vocabulary: Vocabulary;
  readonly served: string;
  /** Name of that model in the answer. `isLate`: only the last events of a stream contain it. */
  readonly #servedName: { readonly name: string; readonly isLate: boolean };
  readonly terms = plainTerms;
  readonly termsRead = plainTerms;
  readonly isBounded = true;
  readonly choices: number;

  constructor(world: World, wire: Wire, arrival: Arrival) {
    super(world, wire, arrival);
    this.#chat = JSON.parse(arrival.body.toString()) as ChatBody;
    this.#prompt = promptTokensOf(arrival.body);
    this.#members = membersOf(world.chance);
    this.#vocabulary = vocabularyOf(world.chance);
    this.served = world.chance.happens(0.15) ? world.chance.pick(models) : this.asked;
    const name =
      this.served === this.asked
        ? this.request.model === this.asked
          ? `${this.served}-1`
          : this.served
        : world.chance.pick([this.served, `simulated/${this.served}`]);
    this.#servedName = { name, isLate: world.chance.happens(0.3) };
    this.#cached = world.chance.happens(0.3) ? world.chance.below(this.#prompt) : 0;
    const writes = hasCacheWrites(this.#vocabulary) && world.chance.happens(0.3);
    this.#cacheWritten = writes ? world.chance.below(this.#prompt - this.#cached) : 0;
    this.choices = this.#chat.n ?? 1;
    this.written = Array.from({ length: this.choices }, () => "");
    this.read = this.written.map(() => "");
  }

  protected tokens(texts: readonly string[], hidden: number, excess: number): TokenCounts {
    const visible = texts.reduce((sum, text) => sum + tokensOf(text), 0);
    const reasoning = Math.max(hidden - visible, 0);
    const [cached, written] = [this.#cached, this.#cacheWritten];
    return {
      ...noTokens,
      input: this.#prompt - cached - written,
      cached_input: cached,
      cache_write: written,
      output: visible + excess,
      reasoning,
    };
  }

  /** Adds text to one member of each choice, up to `tokensMax` tokens each. */
  protected addText(tokensMax: number): Part[] {
    const { chance } = this.world;
    const parts = this.written.map((written): Part => {
      const wanted = this.stream && this.bursts ? tokensMax * 4 : chance.between(1, Math.max(tokensMax * 4, 1));
      // The proxy counts the members of a plain answer separately. With whole tokens, their sum is the count of the choice.
      const room = Math.min(this.limit * 4 - written.length, this.stream ? wanted : Math.ceil(wanted / 4) * 4);
      const text = "lorem ipsum dolor ".repeat(Math.ceil(Math.max(room, 0) / 18) + 1).slice(0, Math.max(room, 0));
      return { member: chance.pick(this.#members), text };
    });
    parts.forEach(({ text }, index) => (this.written[index] += text));
    this.think();
    return parts;
  }

  #usage(): object | undefined {
    const { behavior } = this;
    if (behavior.kind === "answers" && behavior.usage === "none") return undefined;
    if (behavior.kind === "answers" && behavior.usage === "nonsense")
      return { usage: { prompt_tokens: -1, completion_tokens: 2.5 } };
    if (behavior.kind === "answers" && behavior.usage === "excessive")
      this.excess = this.limit * this.written.length + 17;
    const tokens = this.tokensWritten;
    const hasRuns =
      this.#vocabulary === "anthropic_runs" && behavior.kind === "answers" && behavior.usage === "reported";
    const runs = hasRuns ? runsOf(tokens, this.world.chance) : { attempts: [tokens], compaction: null };
    const { attempts, compaction } = runs;
    if (hasRuns) this.runs = [...(compaction === null ? [] : [compaction]), ...attempts].map(asBilled);
    this.hasExtraRuns = compaction !== null;
    return usageMembersOf(this.#vocabulary, tokens, runs);
  }

  #onUsageRead = (): void => {
    this.isReported = true;
  };

  #onServedRead = (): void => {
    this.isServedRead = this.served !== this.asked;
  };

  #onAnswerRead(parts: readonly Part[]): void {
    this.#onServedRead();
    this.written.forEach((text, index) => (this.read[index] = text));
    this.isUnknownRead ||= parts.some(isUnknown);
  }

  protected answer(): void {
    const { behavior } = this;
    const rounds = this.#members.map(() => this.addText(this.limit));
    const usage = this.#usage();
    const choices = this.written.map((_, index) => {
      const parts = rounds.flatMap((round) => round[index] ?? []);
      return { index, message: messageOf(parts), finish_reason: "stop" };
    });
    const whole = JSON.stringify({
      id: "c",
      object: "chat.completion",
      model: this.#servedName.name,
      choices,
      ...usage,
    });
    const isUsageCorrect =
      behavior.kind !== "unreadable" &&
      !(behavior.kind === "answers" && (behavior.usage === "none" || behavior.usage === "nonsense"));
    this.finishWhole(whole, () => {
      this.#onAnswerRead(rounds.flat());
      if (isUsageCorrect) this.isReported = true;
    });
  }

  protected writePart(): boolean {
    const isFull = this.written.every((text) => text.length >= this.limit * 4);
    if (isFull) return false;
    this.addText(this.bursts ? this.limit : this.world.chance.between(1, 24)).forEach((part, index) => {
      if (part.text === "") return;
      const upTo = this.written[index]?.length;
      const read = () => {
        this.read[index] = (this.written[index] ?? "").slice(0, upTo);
        this.longestRead = Math.max(this.longestRead, tokensOf(part.text));
        this.isUnknownRead ||= isUnknown(part);
        if (!this.#servedName.isLate) this.#onServedRead();
      };
      const model = this.#servedName.isLate ? this.request.model : this.#servedName.name;
      this.wire.write({
        kind: "chunk",
        bytes: event({ choices: [{ index, delta: deltaOf(part), finish_reason: null }], model }),
        read,
      });
    });
    return true;
  }

  protected endStream(): void {
    const { behavior } = this;
    const hasUsage =
      this.#chat.stream_options?.include_usage === true ||
      (behavior.kind === "answers" && behavior.usage === "excessive");
    const usage = hasUsage ? this.#usage() : undefined;
    const isUsageCorrect = usage !== undefined && !(behavior.kind === "answers" && behavior.usage === "nonsense");
    const model = this.#servedName.name;
    const choices = this.written.map((_, index) => ({ index, delta: {}, finish_reason: "stop" }));
    const finish: Piece = { kind: "chunk", bytes: event({ choices, model }), read: this.#onServedRead };
    const onReportRead = () => (this.#onServedRead(), isUsageCorrect && this.#onUsageRead());
    const report: Piece[] =
      usage === undefined
        ? []
        : [{ kind: "chunk", bytes: event({ choices: [], ...usage, model }), read: () => void onReportRead() }];
    const done = chunk("data: [DONE]\n\n");
    if (behavior.kind === "reordered") return this.finish(...report, finish, done, { kind: "end" });
    if (behavior.kind === "repeats")
      return this.finish(
        finish,
        finish,
        ...report,
        ...report,
        done,
        done,
        { kind: "end" },
        { kind: "broken" },
        { kind: "end" },
      );
    this.finish(finish, ...report, done, { kind: "end" });
  }
}

function asBilled(tokens: TokenCounts): BilledRun {
  return { tokens, model: null };
}
