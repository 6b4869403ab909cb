import { noTokens, tokenClasses, type TokenCounts } from "../src/core/usage.ts";
import { idOf, modelOutputMax, models } from "./prices.ts";
import { chunk, event, headOf, type Behavior, type Piece, type Wire } from "./pieces.ts";
import { promptTokensOf, tokensOf } from "./tokens.ts";
import { usageMembersOf, hasCacheWrites, runsOf, vocabularyOf, type Runs, type Vocabulary } from "./vocabularies.ts";
import { outside, type World } from "./world.ts";
import { deltaOf, isUnknown, membersOf, messageOf, type Member, type Part } from "./output-members.ts";

/** Largest number of unread pieces on a connection. Above it, the gateway waits for the proxy to read. */
const unreadMax = 6;
/** Speed of a model's hidden reasoning, in tokens per second; lower than the price file states. */
const thinkingSpeed = 40;

interface RequestBody {
  readonly model: string;
  readonly stream?: boolean;
  readonly n?: number;
  readonly max_tokens?: number;
  readonly stream_options?: { readonly include_usage?: boolean };
}

function sumOf(runs: readonly TokenCounts[]): TokenCounts {
  const sum = { ...noTokens };
  for (const run of runs) for (const name of tokenClasses) sum[name] += run[name];
  return sum;
}

/** Request at the gateway, with the answer that the gateway writes and the tokens that it bills. */
export class Generation {
  readonly marker: string;
  readonly stream: boolean;
  readonly behavior: Behavior;
  readonly #world: World;
  readonly #wire: Wire;
  readonly #request: RequestBody;
  readonly #prompt: number;
  readonly #cached: number;
  readonly #cacheWritten: number;
  readonly #path: string;
  readonly #bursts: boolean;
  /** Number of tokens of the longest stream event that the proxy has read. */
  longestRead = 0;
  readonly #members: readonly [Member, ...Member[]];
  readonly #vocabulary: Vocabulary;
  /** Id of the model that the request asks for. */
  readonly #asked: string;
  /** Id of the model that answers. */
  readonly served: string;
  /** Name of that model in the answer. `isLate`: only the last events of a stream contain it. */
  readonly #servedName: { readonly name: string; readonly isLate: boolean };
  /** Text that the gateway has written so far, for each choice, in all its members. */
  readonly #written: string[];
  /** Part of the written text that the proxy has read, for each choice. */
  readonly #read: string[];
  readonly #bytesRead: Buffer[] = [];
  /** Hidden output tokens at the last write. */
  #hidden = 0;
  /** Hidden output tokens when the proxy closed the connection; null while it is open. */
  #hiddenWhenClosed: number | null = null;
  /** Output tokens that the gateway bills without having written them. */
  #excess = 0;
  /** Runs of the model that the reported usage states; null if the tokens are those of one run. */
  #runs: Runs | null = null;
  #isBilled = false;
  #isReported = false;
  #isUnknownRead = false;
  #isServedRead = false;
  /** True if the proxy paused reading. Then it does not know whether a connection that broke had more output. */
  mayBeUnread = false;
  #isOver = false;
  #beganAt: number | null = null;

  constructor(
    world: World,
    wire: Wire,
    {
      marker,
      body,
      behavior,
      path,
      bursts,
    }: {
      readonly marker: string;
      readonly body: Buffer;
      readonly behavior: Behavior;
      readonly path: string;
      readonly bursts: boolean;
    },
  ) {
    this.marker = marker;
    this.behavior = behavior;
    this.#bursts = bursts;
    this.#world = world;
    this.#wire = wire;
    this.#path = path;
    this.#request = JSON.parse(body.toString()) as RequestBody;
    this.stream = this.#request.stream === true;
    this.#prompt = promptTokensOf(body);
    this.#members = membersOf(world.chance);
    this.#vocabulary = vocabularyOf(world.chance);
    this.#asked = idOf(this.#request.model);
    this.served = world.chance.happens(0.15) ? world.chance.pick(models) : this.#asked;
    const name =
      this.served === this.#asked
        ? this.#request.model === this.#asked
          ? `${this.served}-1`
          : this.served
        : world.chance.pick([this.served, `simulated/${this.served}`]);
    this.#servedName = { name, isLate: world.chance.happens(0.3) };
    this.#cached = world.chance.happens(0.3) ? world.chance.below(this.#prompt) : 0;
    const writes = hasCacheWrites(this.#vocabulary) && world.chance.happens(0.3);
    this.#cacheWritten = writes ? world.chance.below(this.#prompt - this.#cached) : 0;
    this.#written = Array.from({ length: this.#request.n ?? 1 }, () => "");
    this.#read = this.#written.map(() => "");
  }

  /** Tokens of each run that the gateway bills; empty if it bills nothing. */
  get billedRuns(): readonly TokenCounts[] {
    if (!this.#isBilled) return [];
    if (this.#runs === null) return [this.#tokens(this.#written, this.#hidden, this.#excess)];
    const { attempts, compaction } = this.#runs;
    return compaction === null ? attempts : [compaction, ...attempts];
  }

  /** Tokens that the gateway bills; null if it bills nothing. */
  get billed(): TokenCounts | null {
    return this.#isBilled ? sumOf(this.billedRuns) : null;
  }

  /** True if the gateway bills a compaction, which no hold covers. */
  get hasCompaction(): boolean {
    return this.#runs !== null && this.#runs.compaction !== null;
  }

  /** Tokens that the proxy could count: those in the bytes that it has read, and hidden tokens until it closed the connection. */
  get seen(): TokenCounts | null {
    return this.#isBilled ? this.#tokens(this.#read, this.#hiddenWhenClosed ?? this.#hidden, 0) : null;
  }

  /** Output tokens that the proxy has read. */
  get outputRead(): number {
    return this.#read.reduce((sum, text) => sum + tokensOf(text), 0);
  }

  /** True if the proxy has read output in a member that it does not know. */
  get isUnknownRead(): boolean {
    return this.#isUnknownRead;
  }

  /** True if the proxy has read that another model answers. */
  get isServedRead(): boolean {
    return this.#isServedRead;
  }

  get choices(): number {
    return this.#written.length;
  }

  /** Text of the answer that the proxy has read. */
  get textRead(): string {
    return Buffer.concat(this.#bytesRead).toString();
  }

  onBytesRead(bytes: Buffer): void {
    this.#bytesRead.push(bytes);
  }

  /** True if the proxy has read a correct usage. */
  get isReported(): boolean {
    return this.#isReported;
  }

  /** True if the gateway writes nothing more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  begin(): void {
    this.#beganAt = this.#world.elapsedMs;
    this.#after("begins", () => this.#respond());
  }

  /** Called when the proxy closes its connection. The gateway notices the end later. */
  onProxyClosed(): void {
    this.#hiddenWhenClosed = this.#hiddenSoFar;
  }

  get #hiddenSoFar(): number {
    if (this.#asked !== "thinker" || this.#beganAt === null) return 0;
    const all = this.#limit * this.#written.length;
    return Math.min(Math.floor((thinkingSpeed * (this.#world.elapsedMs - this.#beganAt)) / 1000), all);
  }

  /** Called when the gateway notices a closed connection. A stream ends; any other answer is still generated and billed. */
  onCloseNoticed(): void {
    if (this.stream) this.#isOver = true;
  }

  #tokens(texts: readonly string[], hidden: number, excess: number): TokenCounts {
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

  #respond(): void {
    // Hidden reasoning depends on time. If a stream began after the proxy closed the connection, its bill would be unknown.
    if (this.#isOver) return;
    const { behavior } = this;
    switch (behavior.kind) {
      case "status":
        this.#isBilled = behavior.billed;
        if (behavior.billed) this.#addText(Math.min(this.#limit, 3));
        this.#finish(
          { kind: "head", head: headOf(behavior.status, "application/json") },
          chunk(JSON.stringify({ error: { message: behavior.message ?? "simulated" } })),
          { kind: "end" },
        );
        return;
      case "redirect": {
        const location = behavior.isSameOrigin ? `${this.#path}?moved=1` : "https://elsewhere.simulated/";
        this.#finish({ kind: "head", head: headOf(307, "text/plain", ["Location", location]) });
        return;
      }
      case "silent":
      case "reset":
        if (behavior.when === "at_once") {
          this.#isBilled = behavior.billed;
          if (behavior.billed) this.#addText(this.#limit);
          this.#finish(...(behavior.kind === "reset" ? [{ kind: "broken" } as const] : []));
          return;
        }
        break;
      case "unreachable":
      case "never_connects":
        return;
      default:
    }
    this.#isBilled = true;
    if (this.stream) this.#beginStream();
    else this.#after("thinks", () => this.#answer());
  }

  /** Output maximum of the request; null if it has none. */
  get maximum(): number | null {
    return this.#request.max_tokens ?? null;
  }

  get #limit(): number {
    return Math.min(this.#request.max_tokens ?? modelOutputMax, modelOutputMax);
  }

  /** Adds text to one member of each choice, up to `tokensMax` tokens each. */
  #addText(tokensMax: number): Part[] {
    const { chance } = this.#world;
    const parts = this.#written.map((written): Part => {
      const wanted = this.stream && this.#bursts ? tokensMax * 4 : chance.between(1, Math.max(tokensMax * 4, 1));
      // The proxy counts the members of a plain answer separately. With whole tokens, their sum is the count of the choice.
      const room = Math.min(this.#limit * 4 - written.length, this.stream ? wanted : Math.ceil(wanted / 4) * 4);
      const text = "lorem ipsum dolor ".repeat(Math.ceil(Math.max(room, 0) / 18) + 1).slice(0, Math.max(room, 0));
      return { member: chance.pick(this.#members), text };
    });
    parts.forEach(({ text }, index) => (this.#written[index] += text));
    this.#hidden = this.#hiddenSoFar;
    return parts;
  }

  #usage(): object | undefined {
    const { behavior } = this;
    if (behavior.kind === "answers" && behavior.usage === "none") return undefined;
    if (behavior.kind === "answers" && behavior.usage === "nonsense")
      return { usage: { prompt_tokens: -1, completion_tokens: 2.5 } };
    if (behavior.kind === "answers" && behavior.usage === "excessive")
      this.#excess = this.#limit * this.#written.length + 17;
    const tokens = this.#tokens(this.#written, this.#hidden, this.#excess);
    const hasRuns =
      this.#vocabulary === "anthropic_runs" && behavior.kind === "answers" && behavior.usage === "reported";
    this.#runs = hasRuns ? runsOf(tokens, this.#world.chance) : null;
    return usageMembersOf(this.#vocabulary, tokens, this.#runs ?? { attempts: [tokens], compaction: null });
  }

  #onUsageRead = (): void => {
    this.#isReported = true;
  };

  #onServedRead = (): void => {
    this.#isServedRead = this.served !== this.#asked;
  };

  #onAnswerRead(parts: readonly Part[]): void {
    this.#onServedRead();
    this.#written.forEach((text, index) => (this.#read[index] = text));
    this.#isUnknownRead ||= parts.some(isUnknown);
  }

  #answer(): void {
    const { behavior } = this;
    const rounds = this.#members.map(() => this.#addText(this.#limit));
    const usage = this.#usage();
    const choices = this.#written.map((_, index) => {
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
    const text = behavior.kind === "unreadable" ? "<html>not what was asked for</html>" : whole;
    const half = Math.floor(text.length / 2);
    const head: Piece = { kind: "head", head: headOf(200, "application/json") };
    const isUsageCorrect =
      behavior.kind !== "unreadable" &&
      !(behavior.kind === "answers" && (behavior.usage === "none" || behavior.usage === "nonsense"));
    const last: Piece = {
      kind: "chunk",
      bytes: Buffer.from(text.slice(half)),
      read: () => (this.#onAnswerRead(rounds.flat()), isUsageCorrect && this.#onUsageRead()),
    };
    if (behavior.kind === "silent")
      return this.#finish(head, ...(behavior.when === "midway" ? [chunk(text.slice(0, half))] : []));
    if (behavior.kind === "reset")
      return this.#finish(head, ...(behavior.when === "midway" ? [chunk(text.slice(0, half))] : []), {
        kind: "broken",
      });
    const ends: Piece[] =
      behavior.kind === "repeats" ? [{ kind: "end" }, { kind: "end" }, { kind: "broken" }] : [{ kind: "end" }];
    if (behavior.kind === "cut") return this.#finish(head, chunk(text.slice(0, half)), ...ends);
    this.#finish(head, chunk(text.slice(0, half)), last, ...ends);
  }

  #beginStream(): void {
    this.#wire.write({ kind: "head", head: headOf(200, "text/event-stream") });
    const { behavior } = this;
    if ((behavior.kind === "silent" || behavior.kind === "reset") && behavior.when === "after_head") {
      return this.#finish(...(behavior.kind === "reset" ? [{ kind: "broken" } as const] : []));
    }
    this.#continueStream(this.#world.chance.between(1, 24));
  }

  /** Writes the next part of a stream, or its end. */
  #continueStream(partsLeft: number): void {
    if (this.#isOver) return;
    if (this.#wire.unread > unreadMax) return this.#wire.onRead(() => this.#continueStream(partsLeft));
    const isBroken = this.behavior.kind === "cut" || this.behavior.kind === "silent" || this.behavior.kind === "reset";
    const isFull = this.#written.every((text) => text.length >= this.#limit * 4);
    if (partsLeft === 0 || isFull) return isBroken ? this.#breakStream() : this.#endStream();
    this.#addText(this.#bursts ? this.#limit : this.#world.chance.between(1, 24)).forEach((part, index) => {
      if (part.text === "") return;
      const upTo = this.#written[index]?.length;
      const read = () => {
        this.#read[index] = (this.#written[index] ?? "").slice(0, upTo);
        this.longestRead = Math.max(this.longestRead, tokensOf(part.text));
        this.#isUnknownRead ||= isUnknown(part);
        if (!this.#servedName.isLate) this.#onServedRead();
      };
      const model = this.#servedName.isLate ? this.#request.model : this.#servedName.name;
      this.#wire.write({
        kind: "chunk",
        bytes: event({ choices: [{ index, delta: deltaOf(part), finish_reason: null }], model }),
        read,
      });
    });
    this.#after(
      "continues the stream",
      () => this.#continueStream(partsLeft - 1),
      this.#world.chance.pick([0, 0, 5, 30, 200]),
    );
  }

  #breakStream(): void {
    if (this.behavior.kind === "silent") return this.#finish();
    this.#finish({ kind: this.behavior.kind === "reset" ? "broken" : "end" });
  }

  #endStream(): void {
    const { behavior } = this;
    const hasUsage =
      this.#request.stream_options?.include_usage === true ||
      (behavior.kind === "answers" && behavior.usage === "excessive");
    const usage = hasUsage ? this.#usage() : undefined;
    const isUsageCorrect = usage !== undefined && !(behavior.kind === "answers" && behavior.usage === "nonsense");
    const model = this.#servedName.name;
    const choices = this.#written.map((_, index) => ({ index, delta: {}, finish_reason: "stop" }));
    const finish: Piece = { kind: "chunk", bytes: event({ choices, model }), read: this.#onServedRead };
    const onReportRead = () => (this.#onServedRead(), isUsageCorrect && this.#onUsageRead());
    const report: Piece[] =
      usage === undefined
        ? []
        : [{ kind: "chunk", bytes: event({ choices: [], ...usage, model }), read: () => void onReportRead() }];
    const done = chunk("data: [DONE]\n\n");
    if (behavior.kind === "reordered") return this.#finish(...report, finish, done, { kind: "end" });
    if (behavior.kind === "repeats")
      return this.#finish(
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
    this.#finish(finish, ...report, done, { kind: "end" });
  }

  #finish(...pieces: readonly Piece[]): void {
    this.#wire.write(...pieces);
    this.#isOver = true;
  }

  #after(what: string, then: () => void, ms = this.#world.chance.delayMs()): void {
    this.#world.after(outside, ms, `${this.marker}: the gateway ${what}`, then);
  }
}
