import type { Refusal } from "../src/core/refusals.ts";
import type { RefusedEvent, RefusedRequest } from "../src/ports/events.ts";
import { BodyBytes, type BodyResult, type Exchange, type HeaderList } from "../src/ports/exchange.ts";
import { errorShapeOf, refusalIn } from "../src/wire/anthropic-error.ts";
import type { Owner, World } from "./world.ts";

interface ExchangeDeps {
  readonly world: World;
  readonly owner: Owner;
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly key: string;
  readonly body: Buffer;
  /** True if the client must receive exactly the gateway's bytes. */
  readonly isPassed: boolean;
  /** Probability that the client does not read a write at once. */
  readonly slow: number;
  /** Headers that name the user and the tags. */
  readonly senderHeaders: HeaderList;
  /** Called when the proxy breaks a rule of HTTP servers. */
  readonly onFault: (what: string) => void;
  readonly onRefusal: (event: RefusedEvent) => void;
}

/** One request of a client, and the part of its answer that the client has received. */
export class SimulatedExchange implements Exchange {
  readonly startedAt: number;
  readonly query = "";
  readonly isLocal = true;
  readonly remoteAddress = "127.0.0.1";
  readonly hasLargeRemainder = false;
  readonly #deps: ExchangeDeps;
  readonly #headers: ReadonlyMap<string, string>;
  readonly #pieces: Buffer[] = [];
  #onClientGone: (() => void) | undefined;
  /** Head of the answer; null until it is written. */
  head: { readonly status: number; readonly headers: HeaderList } | null = null;
  clientGone = false;
  recordAs: RefusedRequest | null = null;
  readonly span = null;
  refusal: Refusal | null = null;
  /** End of the answer as the client sees it; null until it ends. */
  ended: "whole" | "broken" | null = null;

  constructor(deps: ExchangeDeps) {
    this.#deps = deps;
    this.startedAt = deps.world.elapsedMs;
    this.#headers = new Map([
      ["authorization", `Bearer ${deps.key}`],
      ["content-type", "application/json"],
      ...deps.senderHeaders,
    ]);
  }

  get id(): string {
    return this.#deps.id;
  }
  get method(): string {
    return this.#deps.method;
  }
  get path(): string {
    return this.#deps.path;
  }
  get key(): string {
    return this.#deps.key;
  }
  get isPassed(): boolean {
    return this.#deps.isPassed;
  }
  /** Names of the models that the request names; those of a task's own path are not in its body. */
  get modelsNamed(): readonly string[] {
    const { model, models = [] } = JSON.parse(this.#deps.body.toString()) as {
      readonly model?: string;
      readonly models?: readonly string[];
    };
    return [...(model === undefined ? [] : [model]), ...models];
  }
  get owner(): Owner {
    return this.#deps.owner;
  }
  get status(): number | null {
    return this.head?.status ?? null;
  }
  /** Body that the client has received. */
  get body(): string {
    return Buffer.concat(this.#pieces).toString();
  }

  header(name: string): string | undefined {
    return this.#headers.get(name);
  }

  headers(): Iterable<readonly [string, string]> {
    return this.#headers;
  }

  readBody(): Promise<BodyResult> {
    const { world, owner, body, id } = this.#deps;
    return world.call(owner, `${id}: the proxy reads the body`, async () =>
      this.clientGone ? { ok: false, refusal: null } : { ok: true, bytes: new BodyBytes([body]), release: () => {} },
    );
  }

  onClientGone(listener: () => void): void {
    this.#onClientGone = listener;
  }

  replaceHeaders(): void {}

  begin(status: number, headers: HeaderList): void {
    if (this.clientGone || this.head !== null) return;
    this.head = { status, headers };
  }

  write(bytes: Uint8Array): boolean {
    if (this.clientGone) return true;
    if (this.head === null || this.ended !== null)
      this.#deps.onFault(`${this.id}: the proxy writes ${this.head === null ? "before the head" : "after the end"}`);
    this.#pieces.push(Buffer.from(bytes));
    return !this.#deps.world.chance.happens(this.#deps.slow);
  }

  onDrain(listener: () => void): void {
    const { world, owner, id } = this.#deps;
    world.after(owner, world.chance.pick([1, 50, 1_500, 8_000]), `${id}: the slow client has read`, listener);
  }

  end(): void {
    this.#end("whole");
  }

  answer(status: number, headers: HeaderList, body: Uint8Array | string): void {
    if (this.clientGone || this.head !== null) return;
    this.head = { status, headers };
    this.#pieces.push(Buffer.from(body));
    this.#end("whole");
  }

  refuse(refusal: Refusal, extraHeaders: HeaderList = []): void {
    this.#deps.onRefusal({ refusal, request: this.recordAs });
    this.refusal = refusal;
    const { status, headers, body } = refusalIn(errorShapeOf(this.path, false), refusal, this.id);
    this.answer(status, [...headers, ...extraHeaders], body);
  }

  breakOff(): void {
    this.#end("broken");
  }

  /** Disconnects the client unless it has its whole answer. */
  leave(): void {
    if (this.clientGone || this.ended !== null) return;
    this.clientGone = true;
    const { world, owner, id } = this.#deps;
    world.soon(owner, `${id}: the proxy notices that the client left`, () => this.#onClientGone?.());
  }

  /** Called when the proxy crashes. */
  onCrash(): void {
    this.ended ??= "broken";
  }

  #end(how: "whole" | "broken"): void {
    if (this.clientGone || this.ended !== null) return;
    this.ended = how;
    this.#deps.world.note(`${this.id}: answered ${this.status ?? "nothing"}, ${how}`);
  }
}
