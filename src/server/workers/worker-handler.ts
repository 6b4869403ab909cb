import type { LoadedCatalogue } from "../../catalogue/catalogue.ts";
import { messageOf } from "../../core/fault.ts";
import type { BodyMemory, BodyPool } from "../http/body-memory.ts";
import type { Slot } from "../../request/rate-limits.ts";
import { holdColumns } from "../../ledger/charge-columns.ts";
import { unseenEnd, voidCommand, type HoldCommand, type Outcome } from "../../ledger/commands.ts";
import type { QueuedStore } from "../../ledger/store.ts";
import type { Answering, FrontProcess } from "../http-front.ts";
import type { RequestRoutes } from "../routes.ts";
import type { Handlers } from "./link.ts";
import { RoutedExchange } from "./routed-requests.ts";
import type {
  EventCall,
  NumberedBody,
  PrimaryCalls,
  RequestCommand,
  RoutedAnswer,
  RoutedRequest,
  SlotReply,
  WorkerLink,
} from "./protocol.ts";

export interface WorkerHandlerDeps extends Pick<FrontProcess, "events" | "clock" | "work">, Pick<Answering, "routes"> {
  readonly store: Pick<QueuedStore, "commands" | "ledger" | "keys" | "teams" | "sessions">;
  readonly shared: RequestRoutes["shared"];
  /** Subtracts the requests and streams that ended with their worker process from the active ones. */
  readonly lost: (requests: number, streams: number) => void;
  readonly bodyMemory: BodyPool;
  readonly catalogue: () => LoadedCatalogue;
  /** Resolves when every worker has applied the changes up to now, at the latest after a second. */
  readonly changesApplied: () => Promise<void>;
}

type HandledCalls = Omit<PrimaryCalls, "hello" | "ready" | "receivedConnection">;

/**
 * Handles the calls of one worker in the primary, and records the worker's slots, memory and holds. If the worker dies,
 * the handler releases the slots and memory. It posts the holds as assumed, like the holds of a proxy that died.
 */
export class WorkerHandler {
  readonly handlers: Handlers<HandledCalls>;
  readonly #deps: WorkerHandlerDeps;
  readonly #link: WorkerLink;
  /** Commands of all open holds, including holds that are being placed, by charge id. */
  readonly #holds = new Map<string, HoldCommand>();
  /** Slots by the worker's number for them. A slot stays here until the worker has left it and settled its tokens. */
  readonly #slots = new Map<number, { readonly slot: Slot; isReserved: boolean; hasLeft: boolean }>();
  readonly #exchanges = new Map<string, RoutedExchange>();
  /** Commands that are not written yet. */
  readonly #writing = new Set<Promise<unknown>>();
  readonly #running = { requests: 0, streams: 0 };
  /** Memory that the worker's small bodies share. */
  readonly #sharedMemory: BodyMemory;
  /** Memory of the worker's other bodies, by its number for them. */
  readonly #bodies = new Map<number, BodyMemory>();
  #isClosed = false;

  constructor(deps: WorkerHandlerDeps, link: WorkerLink) {
    this.#deps = deps;
    this.#link = link;
    this.#sharedMemory = deps.bodyMemory.open(null);
    const { shared, store } = deps;
    const { keys, teams, sessions } = store;
    this.handlers = {
      command: (command) => this.#command(command),
      isLedgerWritable: () => store.ledger.isWritable(),
      key: (id) => keys.findById(id),
      team: (name) => teams.find(name),
      session: (id) => sessions.find(id),
      sessionSecret: () => sessions.secret(),
      windowsOf: ({ caller, at }) => store.ledger.windowsOf(caller, at),
      enter: (given) => this.#enter(given),
      reserve: ({ id, tokens }) =>
        this.#reserve(
          id,
          async (slot) => ({ fits: await slot.reserve(tokens) }),
          ({ fits }) => fits,
        ),
      reserveOrRefuse: ({ id, tokens, exact }) =>
        this.#reserve(
          id,
          async (slot) => ({ refusal: await slot.reserveOrRefuse(tokens, exact) }),
          ({ refusal }) => refusal === null,
        ),
      settleTokens: ({ id, used }) => this.#settleTokens(id, used),
      cancel: ({ id }) => this.#slots.get(id)?.slot.cancel(),
      leave: ({ id }) => this.#leave(id),
      belowFloor: () => shared.balanceGuard(),
      taskOwner: (taskId) => shared.taskOwner(taskId),
      claimTask: async (claim) => {
        const claimed = await shared.claimTask(claim);
        // From now on, the task settles the hold, not the worker.
        if (claimed === "bound") this.#holds.delete(claim.charge);
        return claimed;
      },
      acquire: (given) => this.#acquire(given),
      release: (bytes) => this.#sharedMemory.release(bytes),
      bodyArrived: ({ id, bytes }) => this.#bodies.get(id)?.arrived(bytes),
      releaseBody: (id) => {
        this.#bodies.get(id)?.release();
        this.#bodies.delete(id);
      },
      event: (event) => this.#event(event),
      answer: (request) => this.#answer(request),
      clientGone: (id) => this.#exchanges.get(id)?.clientLeft(),
    };
  }

  /**
   * Releases everything that the ended worker had, and posts its open holds. Returns how many requests it had in
   * flight, and how many holds were posted.
   */
  async close(): Promise<{ readonly requests: number; readonly holds: number }> {
    this.#isClosed = true;
    const { requests, streams } = this.#running;
    this.#deps.lost(requests, streams);
    for (const exchange of this.#exchanges.values()) exchange.clientLeft();
    for (const { slot } of this.#slots.values()) slot.leave();
    for (const memory of [this.#sharedMemory, ...this.#bodies.values()]) memory.release();
    this.#bodies.clear();
    // Wait for the commands that the worker sent: a settlement among them has the true amount.
    await Promise.allSettled(this.#writing);
    const holds = [...this.#holds.values()];
    await Promise.all(holds.map((hold) => this.#postAssumed(hold)));
    return { requests, holds: holds.length };
  }

  async #command(command: RequestCommand): Promise<Outcome> {
    if (command[0] === "hold") this.#holds.set(command[1], command);
    const writing = this.#deps.store.commands.submit(command);
    this.#writing.add(writing);
    try {
      const answer = await writing;
      const outcome: Outcome = answer.ok
        ? { kind: "done", reply: answer.reply }
        : { kind: "unavailable", message: answer.message };
      this.#trackHold(command, answer.ok, answer.ok && answer.reply.ok);
      return outcome;
    } catch (error) {
      this.#trackHold(command, false, false);
      return { kind: "failed", message: messageOf(error) };
    } finally {
      this.#writing.delete(writing);
    }
  }

  /**
   * Updates the open holds after a command. `isAnswered` is false if the ledger did not answer. `isDone` is true if the
   * command succeeded.
   */
  #trackHold(command: RequestCommand, isAnswered: boolean, isDone: boolean): void {
    if (command[0] === "run") return;
    const [op, id] = command;
    if (op === "hold" && isDone && this.#isClosed) {
      // The worker never received the answer, so the request was not forwarded.
      void this.#deps.store.commands
        .submit(voidCommand(id, "not_sent", unseenEnd(this.#deps.clock.now())))
        .catch(() => undefined);
    }
    const isOver = op === "hold" ? !isDone || this.#isClosed : isAnswered && (op === "post" || op === "void");
    if (isOver) this.#holds.delete(id);
  }

  /** Posts a hold as assumed, as a recovery does. Metrics count the charge like every other. */
  async #postAssumed(command: HoldCommand): Promise<void> {
    const { store, clock, catalogue, shared } = this.#deps;
    const [, id, values] = command;
    const { admitted_at: at, key: keyId, team, route, model, price_group: group, hold } = holdColumns.read(values);
    const key = (await store.keys.findById(keyId)) ?? null;
    const known = catalogue().find(model, at);
    const price = known?.price?.version ?? null;
    await shared.settle({
      charge: { id, route, hold, price },
      quote: { model: known && { id: known.id, group } },
      who: { key, team: null, caller: { key: keyId, team } },
      outcome: { kind: "unknown", reason: "crash" },
      end: unseenEnd(clock.now()),
    });
  }

  async #enter({ id, who, isFree }: Parameters<PrimaryCalls["enter"]>[0]): Promise<ReturnType<PrimaryCalls["enter"]>> {
    const entry = await this.#deps.shared.limiter.enter(who, isFree);
    if (!entry.ok) return { refusal: entry.refusal, countsTokens: false, headers: entry.headers };
    const { slot } = entry;
    if (this.#isClosed) slot.leave();
    else this.#slots.set(id, { slot, isReserved: false, hasLeft: false });
    return { refusal: null, countsTokens: slot.countsTokens, headers: slot.headers() };
  }

  async #reserve<Reply>(
    id: number,
    ask: (slot: Slot) => Promise<Reply>,
    isDone: (reply: Reply) => boolean,
  ): Promise<SlotReply<Reply>> {
    const entry = this.#slots.get(id);
    if (entry === undefined) throw new Error(`there is no slot ${id}`);
    const reply = await ask(entry.slot);
    entry.isReserved ||= isDone(reply);
    return { ...reply, headers: entry.slot.headers() };
  }

  /** Settles the tokens of a slot. The slot may already be left: a response is metered after the client received it. */
  #settleTokens(id: number, used: number | null): void {
    const entry = this.#slots.get(id);
    if (entry === undefined) return;
    entry.slot.settleTokens(used);
    entry.isReserved = false;
    if (entry.hasLeft) this.#slots.delete(id);
  }

  #leave(id: number): void {
    const entry = this.#slots.get(id);
    if (entry === undefined) return;
    entry.slot.leave();
    entry.hasLeft = true;
    if (!entry.isReserved) this.#slots.delete(id);
  }

  async #acquire({ body, bytes, ahead }: Parameters<PrimaryCalls["acquire"]>[0]): Promise<number> {
    if (this.#isClosed) return 0;
    const memory = body === null ? this.#sharedMemory : this.#memoryOf(body);
    const before = memory.bytes;
    const acquiring = memory.acquire(bytes, ahead);
    if (typeof acquiring === "boolean") return acquiring ? memory.bytes - before : 0;
    // Memory that was acquired after a wait includes no bytes ahead.
    return (await acquiring) ? bytes : 0;
  }

  #memoryOf({ id, owner }: NumberedBody): BodyMemory {
    const known = this.#bodies.get(id);
    if (known !== undefined) return known;
    const memory = this.#deps.bodyMemory.open(owner);
    memory.arrives(() => this.#link.notify("refuseBody", id));
    this.#bodies.set(id, memory);
    return memory;
  }

  #event([name, given]: EventCall): void {
    if (name === "requestStarted") this.#running[given === "stream" ? "streams" : "requests"]++;
    if (name === "requestEnded") {
      this.#running.requests--;
      if (given.stream) this.#running.streams--;
    }
    (this.#deps.events[name] as (event: typeof given) => void)(given);
  }

  async #answer(request: RoutedRequest): Promise<RoutedAnswer> {
    const { routes, clock, work, changesApplied } = this.#deps;
    const route = routes[request.route];
    if (route === undefined) throw new Error(`there is no route ${request.route}`);
    const { id } = request;
    const exchange: RoutedExchange = new RoutedExchange(request, clock, {
      readBody: (limitBytes, recordAs) =>
        this.#link.ask("readBody", { id, limitBytes, recordAs }).catch(() => ({ ok: false, refusal: null }) as const),
      sendPart: (head, bytes) => this.#link.ask("sendPart", { id, head, bytes }).catch(() => exchange.clientLeft()),
    });
    this.#exchanges.set(id, exchange);
    const answering = route.handler(exchange);
    work.add(answering.then(() => undefined));
    try {
      const summary = await answering;
      // If the answer says that a key is revoked, every worker must already refuse it.
      await changesApplied();
      return exchange.result(summary);
    } finally {
      this.#exchanges.delete(id);
    }
  }
}
