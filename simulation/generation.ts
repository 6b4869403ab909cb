import { noTokens, type TokenCounts } from "../src/core/usage.ts";
import { modelOutputMax, models } from "./prices.ts";
import { chunk, event, headOf, type Manner, type Piece, type Wire } from "./pieces.ts";
import { promptTokensOf, tokensOf } from "./tokens.ts";
import { statementOf, statesWrites, vocabularyOf, type Vocabulary } from "./vocabularies.ts";
import { outside, type World } from "./world.ts";
import { deltaOf, isUnknown, membersOf, messageOf, type Member, type Part } from "./written.ts";

/** Pieces that a connection takes before the gateway has to wait for its reader. */
const unreadMax = 6;
/** Speed of a model's hidden reasoning, in tokens a second; below what its price file states. */
const thinkingSpeed = 40;

interface Asked {
  readonly model: string;
  readonly stream?: boolean;
  readonly n?: number;
  readonly max_tokens?: number;
  readonly stream_options?: { readonly include_usage?: boolean };
}

/** One request at the gateway: what it writes, and what it bills for it. */
export class Generation {
  readonly marker: string;
  readonly stream: boolean;
  readonly manner: Manner;
  readonly #world: World;
  readonly #wire: Wire;
  readonly #asked: Asked;
  readonly #prompt: number;
  readonly #cached: number;
  readonly #cacheWritten: number;
  readonly #path: string;
  readonly #bursts: boolean;
  /** Tokens of the longest event of a stream that the proxy has read. */
  longestRead = 0;
  readonly #members: readonly [Member, ...Member[]];
  readonly #vocabulary: Vocabulary;
  /** The model that answers, and whether only the last events of a stream say so. */
  readonly served: string;
  readonly #served: { readonly name: string; readonly isLate: boolean };
  /** Text of each choice in all its members: as far as it is written, and as far as the proxy has read it. */
  readonly #written: string[];
  readonly #read: string[];
  /** Output unseen beyond what is written. */
  readonly #handed: Buffer[] = [];
  #hidden = 0;
  #beyond = 0;
  #isBilled = false;
  #isReported = false;
  #isUnknownRead = false;
  #isServedRead = false;
  #isOver = false;
  #beganAt = 0;

  constructor(
    world: World,
    wire: Wire,
    {
      marker,
      body,
      manner,
      path,
      bursts,
    }: {
      readonly marker: string;
      readonly body: Buffer;
      readonly manner: Manner;
      readonly path: string;
      readonly bursts: boolean;
    },
  ) {
    this.marker = marker;
    this.manner = manner;
    this.#bursts = bursts;
    this.#world = world;
    this.#wire = wire;
    this.#path = path;
    this.#asked = JSON.parse(body.toString()) as Asked;
    this.stream = this.#asked.stream === true;
    this.#prompt = promptTokensOf(body);
    this.#members = membersOf(world.chance);
    this.#vocabulary = vocabularyOf(world.chance);
    this.served = world.chance.happens(0.15) ? world.chance.pick(models) : this.#asked.model;
    const name =
      this.served === this.#asked.model
        ? `${this.served}-1`
        : world.chance.pick([this.served, `simulated/${this.served}`]);
    this.#served = { name, isLate: world.chance.happens(0.3) };
    this.#cached = world.chance.happens(0.3) ? world.chance.below(this.#prompt) : 0;
    const writes = statesWrites(this.#vocabulary) && world.chance.happens(0.3);
    this.#cacheWritten = writes ? world.chance.below(this.#prompt - this.#cached) : 0;
    this.#written = Array.from({ length: this.#asked.n ?? 1 }, () => "");
    this.#read = this.#written.map(() => "");
  }

  /** Tokens that the gateway bills; null where it bills nothing. */
  get billed(): TokenCounts | null {
    return this.#isBilled ? this.#tokens(this.#written, this.#beyond) : null;
  }

  /** Tokens that the proxy could know of: those of the bytes it has read. */
  get seen(): TokenCounts | null {
    return this.#isBilled ? this.#tokens(this.#read, 0) : null;
  }

  /** Tokens of output that the proxy has read. */
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

  /** The bytes of its answer that the proxy has read. */
  get handed(): string {
    return Buffer.concat(this.#handed).toString();
  }

  took(bytes: Buffer): void {
    this.#handed.push(bytes);
  }

  /** True if the whole usage has reached the proxy. */
  get isReported(): boolean {
    return this.#isReported;
  }

  /** True if the gateway is done with it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  begin(): void {
    this.#beganAt = this.#world.elapsedMs;
    this.#after("begins", () => this.#treat());
  }

  /** Its client has gone: a stream ends, a plain answer is made and billed all the same. */
  hungUp(): void {
    if (this.stream) this.#isOver = true;
  }

  #tokens(texts: readonly string[], beyond: number): TokenCounts {
    const visible = texts.reduce((sum, text) => sum + tokensOf(text), 0);
    const reasoning = Math.max(this.#hidden - visible, 0);
    const [cached, written] = [this.#cached, this.#cacheWritten];
    return {
      ...noTokens,
      input: this.#prompt - cached - written,
      cached_input: cached,
      cache_write: written,
      output: visible + beyond,
      reasoning,
    };
  }

  #treat(): void {
    // A stream whose client has gone is not begun: no one could know how long the model would think.
    if (this.#isOver) return;
    const { manner } = this;
    switch (manner.kind) {
      case "status":
        this.#isBilled = manner.billed;
        if (manner.billed) this.#writeSome(Math.min(this.#limit, 3));
        this.#finish(
          { kind: "head", head: headOf(manner.status, "application/json") },
          chunk(JSON.stringify({ error: { message: manner.words ?? "simulated" } })),
          { kind: "end" },
        );
        return;
      case "redirect": {
        const location = manner.home ? `${this.#path}?moved=1` : "https://elsewhere.simulated/";
        this.#finish({ kind: "head", head: headOf(307, "text/plain", ["Location", location]) });
        return;
      }
      case "silent":
      case "reset":
        if (manner.when === "at_once") {
          this.#isBilled = manner.billed;
          if (manner.billed) this.#writeSome(this.#limit);
          this.#finish(...(manner.kind === "reset" ? [{ kind: "broken" } as const] : []));
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

  /** The maximum that the request states; null for none. */
  get maximum(): number | null {
    return this.#asked.max_tokens ?? null;
  }

  get #limit(): number {
    return Math.min(this.#asked.max_tokens ?? modelOutputMax, modelOutputMax);
  }

  /** Adds up to so many tokens of text to each choice, in one of its members. */
  #writeSome(tokensMax: number): Part[] {
    const { chance } = this.#world;
    const parts = this.#written.map((written): Part => {
      const asked = this.stream && this.#bursts ? tokensMax * 4 : chance.between(1, Math.max(tokensMax * 4, 1));
      // Members of a plain answer are counted one by one: whole tokens add up to what the choice as a whole is.
      const room = Math.min(this.#limit * 4 - written.length, this.stream ? asked : Math.ceil(asked / 4) * 4);
      const text = "lorem ipsum dolor ".repeat(Math.ceil(Math.max(room, 0) / 18) + 1).slice(0, Math.max(room, 0));
      return { member: chance.pick(this.#members), text };
    });
    parts.forEach(({ text }, index) => (this.#written[index] += text));
    if (this.#asked.model === "thinker") {
      const all = this.#limit * this.#written.length;
      this.#hidden = Math.min(Math.floor((thinkingSpeed * (this.#world.elapsedMs - this.#beganAt)) / 1000), all);
    }
    return parts;
  }

  #usage(): object | undefined {
    const { manner } = this;
    if (manner.kind === "answers" && manner.usage === "none") return undefined;
    if (manner.kind === "answers" && manner.usage === "nonsense")
      return { usage: { prompt_tokens: -1, completion_tokens: 2.5 } };
    if (manner.kind === "answers" && manner.usage === "beyond") this.#beyond = this.#limit * this.#written.length + 17;
    return statementOf(this.#vocabulary, this.#tokens(this.#written, this.#beyond));
  }

  #reported = (): void => {
    this.#isReported = true;
  };

  #readServed = (): void => {
    this.#isServedRead = this.served !== this.#asked.model;
  };

  #readAll(parts: readonly Part[]): void {
    this.#readServed();
    this.#written.forEach((text, index) => (this.#read[index] = text));
    this.#isUnknownRead ||= parts.some(isUnknown);
  }

  #answer(): void {
    const { manner } = this;
    const rounds = this.#members.map(() => this.#writeSome(this.#limit));
    const usage = this.#usage();
    const choices = this.#written.map((_, index) => {
      const parts = rounds.flatMap((round) => round[index] ?? []);
      return { index, message: messageOf(parts), finish_reason: "stop" };
    });
    const whole = JSON.stringify({ id: "c", object: "chat.completion", model: this.#served.name, choices, ...usage });
    const text = manner.kind === "unreadable" ? "<html>not what was asked for</html>" : whole;
    const half = Math.floor(text.length / 2);
    const head: Piece = { kind: "head", head: headOf(200, "application/json") };
    const isSound =
      manner.kind !== "unreadable" &&
      !(manner.kind === "answers" && (manner.usage === "none" || manner.usage === "nonsense"));
    const last: Piece = {
      kind: "chunk",
      bytes: Buffer.from(text.slice(half)),
      read: () => (this.#readAll(rounds.flat()), isSound && this.#reported()),
    };
    if (manner.kind === "silent")
      return this.#finish(head, ...(manner.when === "midway" ? [chunk(text.slice(0, half))] : []));
    if (manner.kind === "reset")
      return this.#finish(head, ...(manner.when === "midway" ? [chunk(text.slice(0, half))] : []), { kind: "broken" });
    const ends: Piece[] =
      manner.kind === "repeats" ? [{ kind: "end" }, { kind: "end" }, { kind: "broken" }] : [{ kind: "end" }];
    if (manner.kind === "cut") return this.#finish(head, chunk(text.slice(0, half)), ...ends);
    this.#finish(head, chunk(text.slice(0, half)), last, ...ends);
  }

  #beginStream(): void {
    this.#wire.write({ kind: "head", head: headOf(200, "text/event-stream") });
    const { manner } = this;
    if ((manner.kind === "silent" || manner.kind === "reset") && manner.when === "after_head") {
      return this.#finish(...(manner.kind === "reset" ? [{ kind: "broken" } as const] : []));
    }
    this.#goOn(this.#world.chance.between(1, 24));
  }

  /** Writes the next part of a stream, or its end. */
  #goOn(partsLeft: number): void {
    if (this.#isOver) return;
    if (this.#wire.unread > unreadMax) return this.#wire.onRead(() => this.#goOn(partsLeft));
    const isBroken = this.manner.kind === "cut" || this.manner.kind === "silent" || this.manner.kind === "reset";
    const isFull = this.#written.every((text) => text.length >= this.#limit * 4);
    if (partsLeft === 0 || isFull) return isBroken ? this.#breakStream() : this.#endStream();
    this.#writeSome(this.#bursts ? this.#limit : this.#world.chance.between(1, 24)).forEach((part, index) => {
      if (part.text === "") return;
      const upTo = this.#written[index]?.length;
      const read = () => {
        this.#read[index] = (this.#written[index] ?? "").slice(0, upTo);
        this.longestRead = Math.max(this.longestRead, tokensOf(part.text));
        this.#isUnknownRead ||= isUnknown(part);
        if (!this.#served.isLate) this.#readServed();
      };
      const model = this.#served.isLate ? this.#asked.model : this.#served.name;
      this.#wire.write({
        kind: "chunk",
        bytes: event({ choices: [{ index, delta: deltaOf(part), finish_reason: null }], model }),
        read,
      });
    });
    this.#after("writes on", () => this.#goOn(partsLeft - 1), this.#world.chance.pick([0, 0, 5, 30, 200]));
  }

  #breakStream(): void {
    if (this.manner.kind === "silent") return this.#finish();
    this.#finish({ kind: this.manner.kind === "reset" ? "broken" : "end" });
  }

  #endStream(): void {
    const { manner } = this;
    const asked =
      this.#asked.stream_options?.include_usage === true || (manner.kind === "answers" && manner.usage === "beyond");
    const usage = asked ? this.#usage() : undefined;
    const isSound = usage !== undefined && !(manner.kind === "answers" && manner.usage === "nonsense");
    const model = this.#served.name;
    const choices = this.#written.map((_, index) => ({ index, delta: {}, finish_reason: "stop" }));
    const finish: Piece = { kind: "chunk", bytes: event({ choices, model }), read: this.#readServed };
    const reportRead = () => (this.#readServed(), isSound && this.#reported());
    const report: Piece[] =
      usage === undefined
        ? []
        : [{ kind: "chunk", bytes: event({ choices: [], ...usage, model }), read: () => void reportRead() }];
    const done = chunk("data: [DONE]\n\n");
    if (manner.kind === "reordered") return this.#finish(...report, finish, done, { kind: "end" });
    if (manner.kind === "repeats")
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
