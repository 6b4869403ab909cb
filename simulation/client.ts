import type { Refusal } from "../src/core/refusals.ts";
import type { BodyResult, Exchange, HeaderList } from "../src/ports/exchange.ts";
import { refusalAnswer } from "../src/wire/refusals.ts";
import type { Owner, World } from "./world.ts";

export interface ExchangeDeps {
  readonly world: World;
  readonly owner: Owner;
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly key: string;
  readonly body: Buffer;
  /** True if the answer's bytes must be the gateway's own. */
  readonly isPassed: boolean;
  /** Probability that a client reads too slowly. */
  readonly slow: number;
  /** Told of what no HTTP server would bear. */
  readonly onFault: (what: string) => void;
  readonly onRefusal: (refusal: Refusal) => void;
}

/** One request of a client, and what the client has seen of its answer. */
export class SimulatedExchange implements Exchange {
  readonly startedAt: number;
  readonly query = "";
  readonly isLocal = true;
  readonly remoteAddress = "127.0.0.1";
  readonly #deps: ExchangeDeps;
  readonly #sent: ReadonlyMap<string, string>;
  readonly #pieces: Buffer[] = [];
  #onClientGone: (() => void) | undefined;
  /** The head of the answer; null while there is none. */
  head: { readonly status: number; readonly headers: HeaderList } | null = null;
  clientGone = false;
  refusal: Refusal | null = null;
  /** End of the answer for the client: by its framing, or by a broken connection. */
  ended: "whole" | "broken" | null = null;

  constructor(deps: ExchangeDeps) {
    this.#deps = deps;
    this.startedAt = deps.world.elapsedMs;
    this.#sent = new Map([
      ["authorization", `Bearer ${deps.key}`],
      ["content-type", "application/json"],
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
    return this.#sent.get(name);
  }

  headers(): Iterable<readonly [string, string]> {
    return this.#sent;
  }

  readBody(): Promise<BodyResult> {
    const { world, owner, body, id } = this.#deps;
    return world.call(owner, `${id}: its body is read`, async () =>
      this.clientGone ? { ok: false, refusal: null } : { ok: true, bytes: body, release: () => {} },
    );
  }

  openBody(): never {
    throw new Error("no one uploads here");
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
      this.#deps.onFault(`${this.id}: written to ${this.head === null ? "before its head" : "after its end"}`);
    this.#pieces.push(Buffer.from(bytes));
    return !this.#deps.world.chance.happens(this.#deps.slow);
  }

  onDrain(listener: () => void): void {
    const { world, owner, id } = this.#deps;
    world.after(owner, world.chance.pick([1, 50, 1_500, 8_000]), `${id}: its slow client has read`, listener);
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
    this.#deps.onRefusal(refusal);
    this.refusal = refusal;
    const { status, headers, body } = refusalAnswer(refusal);
    this.answer(status, [...headers, ...extraHeaders], body);
  }

  breakOff(): void {
    this.#end("broken");
  }

  /** The client goes, unless it has its whole answer. */
  leave(): void {
    if (this.clientGone || this.ended !== null) return;
    this.clientGone = true;
    const { world, owner, id } = this.#deps;
    world.soon(owner, `${id}: its client is gone`, () => this.#onClientGone?.());
  }

  /** The proxy is gone. */
  broken(): void {
    this.ended ??= "broken";
  }

  #end(how: "whole" | "broken"): void {
    if (this.clientGone || this.ended !== null) return;
    this.ended = how;
    this.#deps.world.note(`${this.id}: answered ${this.status ?? "nothing"}, ${how}`);
  }
}
