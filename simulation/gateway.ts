import { family } from "./prices.ts";
import { EngineCall, type Attempt } from "../src/gateway/call.ts";
import { outgoing } from "../src/gateway/outgoing.ts";
import type { Clock } from "../src/ports/clock.ts";
import type { Gateway, GatewayRequest } from "../src/ports/gateway.ts";
import { Generation } from "./generation.ts";
import { SimulatedTasks } from "./tasks.ts";
import { headOf, type Manner, type Piece, type Wire } from "./pieces.ts";
import { outside, type Owner, type World } from "./world.ts";

const origin = "https://gateway.simulated";
/** Longest time until the gateway notices that its client has gone, in milliseconds. */
const hearingMsMax = 50;

export interface GatewayDeps {
  readonly world: World;
  /** Picks a manner for each request. */
  readonly manner: (stream: boolean, model: string) => Manner;
  /** True if it refuses requests that ask for stream usage. */
  readonly refusesUsage: boolean;
  /** True if it writes streams at once. */
  readonly bursts: boolean;
  /** Balance of the account in USD, as the gateway writes it. */
  readonly balance: () => string;
  /** A request goes out on a connection. */
  readonly sending: (marker: string) => void;
}

/** The gateway with its own books. It outlives every crash of the proxy. */
export class SimulatedGateway {
  readonly #deps: GatewayDeps;
  /** Every request that came, by the marker in its body; a redirected one comes twice. */
  readonly books = new Map<string, Generation[]>();
  readonly tasks: SimulatedTasks;
  readonly #open = new Set<SimulatedAttempt>();

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
    this.tasks = new SimulatedTasks(deps.world);
  }

  /** The port for one run of the proxy: the product's own calls over simulated connections. */
  for(owner: Owner, clock: Clock): Gateway {
    const attempts = (request: GatewayRequest, call: EngineCall) =>
      new SimulatedAttempt(this, this.#deps, owner, request, call);
    const destination = { origin, basePath: "" };
    return {
      send: (request, receiver) =>
        new EngineCall(outgoing(request, destination, "gateway-key"), receiver, { attempts, origin, clock }),
    };
  }

  opened(attempt: SimulatedAttempt): void {
    this.#open.add(attempt);
  }

  closed(attempt: SimulatedAttempt): void {
    this.#open.delete(attempt);
  }

  keep(generation: Generation): void {
    const known = this.books.get(generation.marker);
    if (known === undefined) this.books.set(generation.marker, [generation]);
    else known.push(generation);
  }

  /** A run of the proxy is gone: its connections break. */
  lost(owner: Owner): void {
    for (const attempt of this.#open) if (attempt.owner === owner) attempt.close();
  }
}

interface Marked {
  readonly user: string;
  readonly model: string;
  readonly stream?: boolean;
}

const usageRefused: Manner = { kind: "status", status: 400, billed: false, words: "unknown field stream_options" };

const account: Marked = { user: "account", model: "" };

/** One sending over one connection. What the gateway writes waits in it until the proxy reads. */
export class SimulatedAttempt implements Attempt, Wire {
  readonly owner: Owner;
  readonly #gateway: SimulatedGateway;
  readonly #deps: GatewayDeps;
  readonly #request: GatewayRequest;
  readonly #call: EngineCall;
  readonly #wire: Piece[] = [];
  #generation: Generation | undefined;
  #isReading = false;
  #paused = false;
  #closed = false;
  #onRead: (() => void) | undefined;

  constructor(gateway: SimulatedGateway, deps: GatewayDeps, owner: Owner, request: GatewayRequest, call: EngineCall) {
    this.#gateway = gateway;
    this.#deps = deps;
    this.owner = owner;
    this.#request = request;
    this.#call = call;
  }

  start(): void {
    const { world } = this.#deps;
    const body = this.#request.body as Buffer | undefined;
    const {
      user: marker,
      model,
      stream = false,
    } = body === undefined ? account : (JSON.parse(body.toString()) as Marked);
    const manner: Manner = this.#request.path.includes("moved")
      ? { kind: "answers", usage: "reported" }
      : this.#deps.manner(stream, model);
    if (manner.kind === "never_connects") return;
    world.soon(this.owner, `${marker}: connects (${manner.kind})`, () => {
      if (this.#closed) return;
      if (manner.kind === "unreachable") return this.#call.broken(this, "ECONNREFUSED");
      this.#gateway.opened(this);
      if (body !== undefined) this.#deps.sending(marker);
      this.#call.sending(this);
      world.soon(outside, `${marker}: reaches the gateway`, () => this.#arrived(marker, body, manner));
    });
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#read();
  }

  discard(): void {}

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#gateway.closed(this);
    const { world } = this.#deps;
    world.after(outside, world.chance.between(0, hearingMsMax), "the gateway hears that its client has gone", () =>
      this.#generation?.hungUp(),
    );
  }

  get unread(): number {
    return this.#wire.length;
  }

  onRead(callback: () => void): void {
    this.#onRead = callback;
  }

  write(...pieces: readonly Piece[]): void {
    if (this.#closed) return;
    this.#wire.push(...pieces);
    this.#read();
  }

  #arrived(marker: string, body: Buffer | undefined, manner: Manner): void {
    const { method, path } = this.#request;
    if (path.startsWith("/api/v1/task") || path.startsWith(`${family}/`))
      return this.#gateway.tasks.answer(this, method, path, body, manner);
    if (body === undefined) return this.#account(manner);
    const isRefused = this.#deps.refusesUsage && body.includes("stream_options");
    const treatment = isRefused ? usageRefused : manner;
    const generation = new Generation(this.#deps.world, this, {
      marker,
      body,
      manner: treatment,
      bursts: this.#deps.bursts,
      path: this.#request.path,
    });
    this.#generation = generation;
    this.#gateway.keep(generation);
    if (this.#closed) generation.hungUp();
    generation.begin();
  }

  #account(manner: Manner): void {
    const { world, balance } = this.#deps;
    world.soon(outside, "the gateway answers for its account", () => {
      if (manner.kind === "silent") return;
      if (manner.kind === "reset") return this.write({ kind: "broken" });
      const status = manner.kind === "status" ? manner.status : 200;
      const text = status === 200 ? `{"code":0,"data":{"equivalent_in_usd":${balance()}}}` : "{}";
      this.write(
        { kind: "head", head: headOf(status, "application/json") },
        { kind: "chunk", bytes: Buffer.from(text) },
        { kind: "end" },
      );
    });
  }

  /** The proxy reads one piece after the other, each in its own time. */
  #read(): void {
    if (this.#isReading || this.#paused || this.#closed || this.#wire.length === 0) return;
    this.#isReading = true;
    const marker = this.#generation?.marker ?? "account";
    this.#deps.world.soon(this.owner, `${marker}: ${this.#wire[0]?.kind ?? ""} arrives`, () => {
      this.#isReading = false;
      if (this.#closed || this.#paused) return;
      const piece = this.#wire.shift();
      if (piece !== undefined) this.#hand(piece);
      const onRead = this.#onRead;
      this.#onRead = undefined;
      if (onRead !== undefined)
        this.#deps.world.after(outside, 0, `${marker}: the gateway sees that its reader goes on`, onRead);
      this.#read();
    });
  }

  #hand(piece: Piece): void {
    switch (piece.kind) {
      case "head":
        this.#call.answered(this, piece.head);
        return;
      case "chunk":
        piece.read?.();
        this.#generation?.took(piece.bytes);
        this.#call.received(this, piece.bytes);
        return;
      case "end":
        this.#gateway.closed(this);
        this.#call.completed(this);
        return;
      case "broken":
        this.#gateway.closed(this);
        this.#call.broken(this, "ECONNRESET");
    }
  }
}
