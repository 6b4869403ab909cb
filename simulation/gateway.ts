import type { BodyBytes } from "../src/ports/exchange.ts";
import { family } from "./prices.ts";
import { EngineCalls, type Attempt, type EngineCall } from "../src/gateway/call.ts";
import type { Clock } from "../src/ports/clock.ts";
import type { Gateway, GatewayRequest } from "../src/ports/gateway.ts";
import { ChatGeneration } from "./chat-generation.ts";
import type { Generation } from "./generation.ts";
import { MessageGeneration } from "./message-generation.ts";
import { SimulatedTasks } from "./tasks.ts";
import { headOf, type Behavior, type Piece, type Wire } from "./pieces.ts";
import { outside, type Owner, type World } from "./world.ts";

const origin = "https://gateway.simulated";
/** Longest time until the gateway notices a closed connection, in milliseconds. */
const noticeMsMax = 50;

interface GatewayDeps {
  readonly world: World;
  /** Picks a behavior for each request. */
  readonly behavior: (path: string, model: string) => Behavior;
  /** True if the gateway refuses requests that ask for stream usage. */
  readonly refusesUsage: boolean;
  /** True if the gateway writes each stream at once. */
  readonly bursts: boolean;
  /** Returns the balance of the account in USD, in the gateway's format. */
  readonly balance: () => string;
  /** Called when a request is sent on a connection. */
  readonly onSend: (marker: string) => void;
}

/** Simulated gateway and its bills. It survives every crash of the proxy. */
export class SimulatedGateway {
  readonly #deps: GatewayDeps;
  /** Requests that arrived, by the marker in their body. A redirected request arrives twice. */
  readonly generations = new Map<string, Generation[]>();
  readonly tasks: SimulatedTasks;
  readonly #open = new Set<SimulatedAttempt>();

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
    this.tasks = new SimulatedTasks(deps.world);
  }

  /** Returns the gateway port for one run of the proxy. It is the product's code over simulated connections. */
  portFor(owner: Owner, clock: Clock): Gateway {
    return new EngineCalls(
      { baseUrl: origin, apiKey: "gateway-key", clock },
      (request, call) => new SimulatedAttempt(this, this.#deps, owner, request, call),
    );
  }

  onOpen(attempt: SimulatedAttempt): void {
    this.#open.add(attempt);
  }

  onClose(attempt: SimulatedAttempt): void {
    this.#open.delete(attempt);
  }

  record(generation: Generation): void {
    const known = this.generations.get(generation.marker);
    if (known === undefined) this.generations.set(generation.marker, [generation]);
    else known.push(generation);
  }

  /** Closes all connections of a run of the proxy. */
  disconnect(owner: Owner): void {
    for (const attempt of this.#open) if (attempt.owner === owner) attempt.close();
  }
}

interface RequestBody {
  readonly user?: string;
  readonly metadata?: { readonly user_id: string };
  readonly model: string;
}

/** Returns true for the path of the Messages API. */
export function isMessages(path: string): boolean {
  return path.startsWith("/v1/messages");
}

const usageRefused: Behavior = { kind: "status", status: 400, billed: false, message: "unknown field stream_options" };

const accountRequest: RequestBody = { user: "account", model: "" };

/** Attempt to send a request on its own connection. Keeps what the gateway writes until the proxy reads it. */
class SimulatedAttempt implements Attempt, Wire {
  readonly owner: Owner;
  readonly #gateway: SimulatedGateway;
  readonly #deps: GatewayDeps;
  readonly #request: GatewayRequest;
  readonly #call: EngineCall;
  readonly #unread: Piece[] = [];
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
    const body = (this.#request.body as BodyBytes | undefined)?.whole;
    const {
      metadata,
      user: marker = metadata?.user_id ?? "",
      model,
    } = body === undefined ? accountRequest : (JSON.parse(body.toString()) as RequestBody);
    const behavior: Behavior = this.#request.path.includes("moved")
      ? { kind: "answers", usage: "reported" }
      : this.#deps.behavior(this.#request.path, model);
    if (behavior.kind === "never_connects") return;
    world.soon(this.owner, `${marker}: connects (${behavior.kind})`, () => {
      if (this.#closed) return;
      if (behavior.kind === "unreachable") return this.#call.broken(this, "ECONNREFUSED");
      this.#gateway.onOpen(this);
      if (body !== undefined) this.#deps.onSend(marker);
      this.#call.sending(this);
      world.soon(outside, `${marker}: reaches the gateway`, () => this.#onArrival(marker, body, behavior));
    });
  }

  pause(): void {
    this.#paused = true;
    if (this.#generation !== undefined) this.#generation.mayBeUnread = true;
  }

  resume(): void {
    this.#paused = false;
    this.#read();
  }

  discard(): void {}

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#gateway.onClose(this);
    this.#generation?.onProxyClosed();
    const { world } = this.#deps;
    world.after(outside, world.chance.between(0, noticeMsMax), "the gateway notices a closed connection", () =>
      this.#generation?.onCloseNoticed(),
    );
  }

  get unread(): number {
    return this.#unread.length;
  }

  onRead(callback: () => void): void {
    this.#onRead = callback;
  }

  write(...pieces: readonly Piece[]): void {
    if (this.#closed) return;
    this.#unread.push(...pieces);
    this.#read();
  }

  #onArrival(marker: string, body: Buffer | undefined, behavior: Behavior): void {
    const { method, path } = this.#request;
    if (path.startsWith("/api/v1/task") || path.startsWith(`${family}/`))
      return this.#gateway.tasks.answer(this, method, path, body, behavior);
    if (body === undefined) return this.#answerAccount(behavior);
    const isRefused = this.#deps.refusesUsage && body.includes("stream_options");
    const generation = new (isMessages(path) ? MessageGeneration : ChatGeneration)(this.#deps.world, this, {
      marker,
      body,
      behavior: isRefused ? usageRefused : behavior,
      bursts: this.#deps.bursts,
      path: this.#request.path,
    });
    this.#generation = generation;
    this.#gateway.record(generation);
    if (this.#closed) generation.onCloseNoticed();
    generation.begin();
  }

  #answerAccount(behavior: Behavior): void {
    const { world, balance } = this.#deps;
    world.soon(outside, "the gateway answers for the account", () => {
      if (behavior.kind === "silent") return;
      if (behavior.kind === "reset") return this.write({ kind: "broken" });
      const status = behavior.kind === "status" ? behavior.status : 200;
      const text = status === 200 ? `{"code":0,"data":{"equivalent_in_usd":${balance()}}}` : "{}";
      this.write(
        { kind: "head", head: headOf(status, "application/json") },
        { kind: "chunk", bytes: Buffer.from(text) },
        { kind: "end" },
      );
    });
  }

  /** Lets the proxy read one piece after another, each after its own delay. */
  #read(): void {
    if (this.#isReading || this.#paused || this.#closed || this.#unread.length === 0) return;
    this.#isReading = true;
    const marker = this.#generation?.marker ?? "account";
    this.#deps.world.soon(this.owner, `${marker}: ${this.#unread[0]?.kind ?? ""} arrives`, () => {
      this.#isReading = false;
      if (this.#closed || this.#paused) return;
      const piece = this.#unread.shift();
      if (piece !== undefined) this.#deliver(piece);
      const onRead = this.#onRead;
      this.#onRead = undefined;
      if (onRead !== undefined) this.#deps.world.after(outside, 0, `${marker}: the gateway may write again`, onRead);
      this.#read();
    });
  }

  #deliver(piece: Piece): void {
    switch (piece.kind) {
      case "head":
        this.#call.answered(this, piece.head);
        return;
      case "chunk":
        piece.read?.();
        this.#generation?.onBytesRead(piece.bytes);
        this.#call.received(this, piece.bytes);
        return;
      case "end":
        this.#gateway.onClose(this);
        this.#call.completed(this);
        return;
      case "broken":
        this.#gateway.onClose(this);
        this.#call.broken(this, "ECONNRESET");
    }
  }
}
