import { noTokens, tokenClasses, type TokenCounts } from "../src/core/usage.ts";
import { chunk, headOf, type Behavior, type Piece, type Wire } from "./pieces.ts";
import { idOf, modelOutputMax } from "./prices.ts";
import type { BilledRun, Terms } from "./tariffs.ts";
import { tokensOf } from "./tokens.ts";
import { outside, type World } from "./world.ts";

/** Largest number of unread pieces on a connection. Above it, the gateway waits for the proxy to read. */
const unreadMax = 6;
/** Speed of a model's hidden reasoning, in tokens per second; lower than the price file states. */
const thinkingSpeed = 40;
const thinkers: ReadonlySet<string> = new Set(["thinker", "fable"]);

interface RequestBody {
  readonly model: string;
  readonly stream?: boolean;
  readonly max_tokens?: number;
}

/** Request that arrived at the gateway. */
export interface Arrival {
  readonly marker: string;
  readonly body: Buffer;
  readonly behavior: Behavior;
  readonly path: string;
  /** True if the gateway writes each stream at once. */
  readonly bursts: boolean;
}

function sumOf(runs: readonly BilledRun[]): TokenCounts {
  const sum = { ...noTokens };
  for (const { tokens } of runs) for (const name of tokenClasses) sum[name] += tokens[name];
  return sum;
}

/** Request at the gateway, with the answer that the gateway writes and the tokens that it bills. */
export abstract class Generation {
  readonly marker: string;
  readonly stream: boolean;
  readonly behavior: Behavior;
  protected readonly world: World;
  protected readonly wire: Wire;
  protected readonly bursts: boolean;
  protected readonly request: RequestBody;
  readonly #path: string;
  /** Number of tokens of the longest stream event that the proxy has read. */
  longestRead = 0;
  /** Id of the model that the request asks for. */
  protected readonly asked: string;
  /** Texts that the gateway has written so far, and the parts of them that the proxy has read. */
  protected written: string[] = [];
  protected read: string[] = [];
  readonly #bytesRead: Buffer[] = [];
  /** Hidden output tokens at the last write. */
  #hidden = 0;
  /** Hidden output tokens when the proxy closed the connection; null while it is open. */
  #hiddenWhenClosed: number | null = null;
  /** Output tokens that the gateway bills without having written them. */
  protected excess = 0;
  /** Runs of the model that the reported usage states; null if the tokens are those of one run. */
  protected runs: readonly BilledRun[] | null = null;
  protected isBilled = false;
  /** True if the proxy has read a correct usage. */
  isReported = false;
  /** True if the proxy has read output in a member that it does not know. */
  isUnknownRead = false;
  /** True if the proxy has read that another model answers. */
  isServedRead = false;
  /** True if the proxy has read what the prompt costs. */
  isPromptRead = false;
  /** True if the proxy has read to its end that the model refused, for which the gateway bills nothing. */
  isRefusalRead = false;
  /** True if the gateway bills runs that no hold covers. */
  hasExtraRuns = false;
  /** True if the proxy paused reading. Then it does not know whether a connection that broke had more output. */
  mayBeUnread = false;
  /** True if the gateway writes nothing more. */
  isOver = false;
  #beganAt: number | null = null;

  constructor(world: World, wire: Wire, { marker, body, behavior, path, bursts }: Arrival) {
    this.marker = marker;
    this.behavior = behavior;
    this.bursts = bursts;
    this.world = world;
    this.wire = wire;
    this.#path = path;
    this.request = JSON.parse(body.toString()) as RequestBody;
    this.stream = this.request.stream === true;
    this.asked = idOf(this.request.model);
  }

  /** Id of the model that answers. */
  abstract readonly served: string;
  /** Terms of the bill, in addition to its tokens. */
  abstract readonly terms: Terms;
  /** The part of `terms` that the proxy has read. */
  abstract readonly termsRead: Terms;
  /** False if the request allows costs that no hold covers. */
  abstract readonly isBounded: boolean;
  abstract readonly choices: number;
  /** Writes a whole answer. */
  protected abstract answer(): void;
  /** Writes the next part of a stream. Returns false if there is no more. */
  protected abstract writePart(): boolean;
  protected abstract endStream(): void;
  /** Writes up to this number of tokens, which the proxy does not read. */
  protected abstract addText(tokensMax: number): unknown;
  protected abstract tokens(texts: readonly string[], hidden: number, excess: number, isRead: boolean): TokenCounts;

  /** Writes the first event of a stream. Returns false if the stream breaks before it. */
  protected writeStart(): boolean {
    return true;
  }

  /** Runs of the model that the gateway bills; empty if it bills nothing. */
  get billedRuns(): readonly BilledRun[] {
    if (!this.isBilled) return [];
    return this.runs ?? [{ tokens: this.tokensWritten, model: null }];
  }

  protected get tokensWritten(): TokenCounts {
    return this.tokens(this.written, this.#hidden, this.excess, false);
  }

  /** Tokens that the gateway bills; null if it bills nothing. */
  get billed(): TokenCounts | null {
    return this.isBilled ? sumOf(this.billedRuns) : null;
  }

  /** Tokens of the whole answer that the proxy could count. */
  get countable(): TokenCounts | null {
    return this.billed;
  }

  /** Tokens that the proxy could count: those in the bytes that it has read, and hidden tokens until it closed the connection. */
  get seen(): TokenCounts | null {
    return this.isBilled ? this.tokens(this.read, this.#hiddenWhenClosed ?? this.#hidden, 0, true) : null;
  }

  /** Output tokens that the proxy has read. */
  get outputRead(): number {
    return this.read.reduce((sum, text) => sum + tokensOf(text), 0);
  }

  /** Text of the answer that the proxy has read. */
  get textRead(): string {
    return Buffer.concat(this.#bytesRead).toString();
  }

  /** Output maximum of the request; null if it has none. */
  get maximum(): number | null {
    return this.request.max_tokens ?? null;
  }

  protected get limit(): number {
    return Math.min(this.request.max_tokens ?? modelOutputMax, modelOutputMax);
  }

  onBytesRead(bytes: Buffer): void {
    this.#bytesRead.push(bytes);
  }

  begin(): void {
    this.#beganAt = this.world.elapsedMs;
    this.#after("begins", () => this.#respond());
  }

  /** Called when the proxy closes its connection. The gateway notices the end later. */
  onProxyClosed(): void {
    this.#hiddenWhenClosed = this.#hiddenSoFar;
  }

  get #hiddenSoFar(): number {
    if (!thinkers.has(this.asked) || this.#beganAt === null) return 0;
    const all = this.limit * this.choices;
    return Math.min(Math.floor((thinkingSpeed * (this.world.elapsedMs - this.#beganAt)) / 1000), all);
  }

  /** Called after each write: the model thinks until then. */
  protected think(): void {
    this.#hidden = this.#hiddenSoFar;
  }

  /** Called when the gateway notices a closed connection. A stream ends; any other answer is still generated and billed. */
  onCloseNoticed(): void {
    if (this.stream) this.isOver = true;
  }

  #respond(): void {
    // Hidden reasoning depends on time. If a stream began after the proxy closed the connection, its bill would be unknown.
    if (this.isOver) return;
    const { behavior } = this;
    switch (behavior.kind) {
      case "status":
        this.isBilled = behavior.billed;
        if (behavior.billed) this.addText(Math.min(this.limit, 3));
        this.finish(
          { kind: "head", head: headOf(behavior.status, "application/json") },
          chunk(JSON.stringify({ error: { message: behavior.message ?? "simulated" } })),
          { kind: "end" },
        );
        return;
      case "redirect": {
        const location = behavior.isSameOrigin ? `${this.#path}?moved=1` : "https://elsewhere.simulated/";
        this.finish({ kind: "head", head: headOf(307, "text/plain", ["Location", location]) });
        return;
      }
      case "silent":
      case "reset":
        if (behavior.when === "at_once") {
          this.isBilled = behavior.billed;
          if (behavior.billed) this.addText(this.limit);
          this.finish(...(behavior.kind === "reset" ? [{ kind: "broken" } as const] : []));
          return;
        }
        break;
      case "unreachable":
      case "never_connects":
        return;
      default:
    }
    this.isBilled = true;
    if (this.stream) this.#beginStream();
    else this.#after("thinks", () => this.answer());
  }

  #beginStream(): void {
    this.wire.write({ kind: "head", head: headOf(200, "text/event-stream") });
    const { behavior } = this;
    if ((behavior.kind === "silent" || behavior.kind === "reset") && behavior.when === "after_head") {
      return this.finish(...(behavior.kind === "reset" ? [{ kind: "broken" } as const] : []));
    }
    if (!this.writeStart()) return this.#breakStream();
    this.#continueStream(this.world.chance.between(1, 24));
  }

  /** Writes the next part of a stream, or its end. */
  #continueStream(partsLeft: number): void {
    if (this.isOver) return;
    if (this.wire.unread > unreadMax) return this.wire.onRead(() => this.#continueStream(partsLeft));
    const isBroken = this.behavior.kind === "cut" || this.behavior.kind === "silent" || this.behavior.kind === "reset";
    if (partsLeft === 0 || !this.writePart()) return isBroken ? this.#breakStream() : this.endStream();
    this.#after(
      "continues the stream",
      () => this.#continueStream(partsLeft - 1),
      this.world.chance.pick([0, 0, 5, 30, 200]),
    );
  }

  #breakStream(): void {
    if (this.behavior.kind === "silent") return this.finish();
    this.finish({ kind: this.behavior.kind === "reset" ? "broken" : "end" });
  }

  /** Writes a whole answer, or the part of it that this behavior lets through. `read`: called at its end. */
  protected finishWhole(whole: string, read: () => void): void {
    const { behavior } = this;
    const text = behavior.kind === "unreadable" ? "<html>not what was asked for</html>" : whole;
    const half = Math.floor(text.length / 2);
    const head: Piece = { kind: "head", head: headOf(200, "application/json") };
    const last: Piece = { kind: "chunk", bytes: Buffer.from(text.slice(half)), read };
    if (behavior.kind === "silent")
      return this.finish(head, ...(behavior.when === "midway" ? [chunk(text.slice(0, half))] : []));
    if (behavior.kind === "reset")
      return this.finish(head, ...(behavior.when === "midway" ? [chunk(text.slice(0, half))] : []), {
        kind: "broken",
      });
    const ends: Piece[] =
      behavior.kind === "repeats" ? [{ kind: "end" }, { kind: "end" }, { kind: "broken" }] : [{ kind: "end" }];
    if (behavior.kind === "cut") return this.finish(head, chunk(text.slice(0, half)), ...ends);
    this.finish(head, chunk(text.slice(0, half)), last, ...ends);
  }

  protected finish(...pieces: readonly Piece[]): void {
    this.wire.write(...pieces);
    this.isOver = true;
  }

  #after(what: string, then: () => void, ms = this.world.chance.delayMs()): void {
    this.world.after(outside, ms, `${this.marker}: the gateway ${what}`, then);
  }
}
