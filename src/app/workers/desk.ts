import type { LoadedCatalogue } from "../../catalogue/catalogue.ts";
import type { BodyMemory } from "../../http/body.ts";
import type { Route } from "../../http/http-app.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Events } from "../../ports/events.ts";
import type { KeyStore } from "../../ports/key-store.ts";
import type { Log } from "../../ports/log.ts";
import type { RunSessions } from "../../ports/run-sessions.ts";
import type { TeamStore } from "../../ports/team-store.ts";
import type { TaskOwner } from "../../proxy/task-ownership.ts";
import type { Slot } from "../../proxy/limits.ts";
import type { RequestSteps } from "../../proxy/metered-request.ts";
import { voidCommand, type HoldCommand, type Outcome } from "../../store/commands.ts";
import type { CommandSink } from "../../store/queue.ts";
import type { Work } from "../work.ts";
import type { Handlers } from "./link.ts";
import type { EventCall, PlaceReply, PrimaryCalls, RequestCommand, RoutedAnswer, RoutedRequest } from "./protocol.ts";
import { RoutedExchange } from "./routed-requests.ts";
import type { WorkerLink } from "./worker-link.ts";

/** What the primary has for its workers. */
export interface DeskParts {
  readonly commands: CommandSink;
  readonly isLedgerWritable: () => Promise<boolean>;
  readonly keys: Pick<KeyStore, "findById">;
  readonly teams: Pick<TeamStore, "find">;
  readonly sessions: Pick<RunSessions, "secret" | "find">;
  readonly shared: Pick<RequestSteps, "limiter" | "balanceGuard" | "settle" | "claimTask"> & {
    readonly taskOwner: TaskOwner;
  };
  readonly events: Events;
  /** Requests and streams that ended with their process. */
  readonly lost: (requests: number, streams: number) => void;
  readonly bodyMemory: BodyMemory;
  readonly routes: readonly Route[];
  readonly catalogue: () => LoadedCatalogue;
  readonly clock: Clock;
  readonly log: Log;
  readonly work: Work;
  /** Resolves when every worker has forgotten what was changed up to now. */
  readonly changesHeard: () => Promise<void>;
}

type DeskCalls = Omit<PrimaryCalls, "hello" | "ready" | "took">;

/**
 * The primary's desk for one worker: does what the worker asks, and remembers what it would leave behind. When it dies, its
 * places are given up, its memory is free, and its holds are posted as assumed, as those of a proxy that died.
 */
export class WorkerDesk {
  readonly handlers: Handlers<DeskCalls>;
  readonly #parts: DeskParts;
  readonly #link: () => WorkerLink;
  /** Holds that are placed or about to be, and not ended: what paid for what, by the charge's id. */
  readonly #holds = new Map<string, HoldCommand>();
  readonly #places = new Map<number, { readonly slot: Slot; isReserved: boolean; hasLeft: boolean }>();
  readonly #exchanges = new Map<string, RoutedExchange>();
  /** Commands that are not written yet. */
  readonly #writing = new Set<Promise<unknown>>();
  readonly #running = { requests: 0, streams: 0 };
  #lent = 0;
  #isClosed = false;

  constructor(parts: DeskParts, link: () => WorkerLink) {
    this.#parts = parts;
    this.#link = link;
    const { keys, teams, sessions, shared } = parts;
    this.handlers = {
      command: (command) => this.#command(command),
      isLedgerWritable: () => parts.isLedgerWritable(),
      key: (id) => keys.findById(id),
      team: (name) => teams.find(name),
      session: (id) => sessions.find(id),
      sessionSecret: () => sessions.secret(),
      enter: ({ id, who }) => this.#enter(id, who),
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
      cancel: ({ id }) => this.#places.get(id)?.slot.cancel(),
      leave: ({ id }) => this.#leave(id),
      belowFloor: () => shared.balanceGuard(),
      taskOwner: (taskId) => shared.taskOwner(taskId),
      claimTask: async (claim) => {
        const claimed = await shared.claimTask(claim);
        // From now on the task ends the hold, not its worker.
        if (claimed === "bound") this.#holds.delete(claim.charge);
        return claimed;
      },
      borrow: ({ needed, wanted }) => this.#borrow(needed, wanted),
      giveBack: (bytes) => this.#giveBack(bytes),
      event: (event) => this.#event(event),
      answer: (request) => this.#answer(request),
      clientGone: (id) => this.#exchanges.get(id)?.leave(),
    };
  }

  /** The worker has gone. Answers how many holds it left; they are posted when it resolves. */
  async close(): Promise<{ readonly requests: number; readonly holds: number }> {
    this.#isClosed = true;
    const { requests, streams } = this.#running;
    this.#parts.lost(requests, streams);
    for (const exchange of this.#exchanges.values()) exchange.leave();
    for (const { slot } of this.#places.values()) slot.leave();
    this.#parts.bodyMemory.give(this.#lent);
    // What it had sent is written first: an end among it is the true one.
    await Promise.allSettled(this.#writing);
    const holds = [...this.#holds.values()];
    await Promise.all(holds.map((hold) => this.#postAssumed(hold)));
    return { requests, holds: holds.length };
  }

  async #command(command: RequestCommand): Promise<Outcome> {
    if (command[0] === "hold") this.#holds.set(command[1], command);
    const writing = this.#parts.commands.submit(command);
    this.#writing.add(writing);
    try {
      const answer = await writing;
      const outcome: Outcome = answer.ok
        ? { kind: "done", reply: answer.reply }
        : { kind: "unavailable", message: answer.message };
      this.#note(command, answer.ok, answer.ok && answer.reply.ok);
      return outcome;
    } catch (error) {
      this.#note(command, false, false);
      return { kind: "failed", message: error instanceof Error ? error.message : String(error) };
    } finally {
      this.#writing.delete(writing);
    }
  }

  /** After the ledger's answer, where there is one: whether it did what was asked. */
  #note(command: RequestCommand, isAnswered: boolean, isDone: boolean): void {
    if (command[0] === "streams") return;
    const [op, id] = command;
    if (op === "hold" && isDone && this.#isClosed) {
      // Its worker never heard of it, so nothing was sent.
      const end = {
        at: this.#parts.clock.now(),
        status: null,
        servedModel: null,
        gatewayRequestId: null,
        durationMs: null,
        firstTokenMs: null,
      };
      void this.#parts.commands.submit(voidCommand(id, "not_sent", end)).catch(() => undefined);
    }
    const isOver = op === "hold" ? !isDone || this.#isClosed : isAnswered && (op === "post" || op === "void");
    if (isOver) this.#holds.delete(id);
  }

  /** As a recovery does it, and counted like every other charge. */
  async #postAssumed(command: HoldCommand): Promise<void> {
    const { keys, clock, catalogue, shared } = this.#parts;
    const [, id, , at, keyId, team, route, model, group, , , , amount] = command;
    const key = (await keys.findById(keyId)) ?? null;
    const known = catalogue().find(model, at);
    const price = known?.price?.version ?? null;
    await shared.settle({
      held: { id, route, hold: amount, price },
      quote: { model: known && { id: known.id, group } },
      who: { key, team: null, caller: { key: keyId, team } },
      outcome: { kind: "unknown", reason: "crash" },
      end: {
        at: clock.now(),
        status: null,
        servedModel: null,
        gatewayRequestId: null,
        durationMs: null,
        firstTokenMs: null,
      },
    });
  }

  async #enter(
    id: number,
    who: Parameters<PrimaryCalls["enter"]>[0]["who"],
  ): Promise<ReturnType<PrimaryCalls["enter"]>> {
    const entry = await this.#parts.shared.limiter.enter(who);
    if (!entry.ok) return { refusal: entry.refusal, countsTokens: false, headers: entry.headers };
    const { slot } = entry;
    if (this.#isClosed) slot.leave();
    else this.#places.set(id, { slot, isReserved: false, hasLeft: false });
    return { refusal: null, countsTokens: slot.countsTokens, headers: slot.headers() };
  }

  async #reserve<Reply>(
    id: number,
    ask: (slot: Slot) => Promise<Reply>,
    isDone: (reply: Reply) => boolean,
  ): Promise<PlaceReply<Reply>> {
    const held = this.#places.get(id);
    if (held === undefined) throw new Error(`there is no slot ${id}`);
    const reply = await ask(held.slot);
    held.isReserved ||= isDone(reply);
    return { ...reply, headers: held.slot.headers() };
  }

  /** Perhaps after the slot was left: an answer is metered when its client has it. */
  #settleTokens(id: number, used: number | null): void {
    const held = this.#places.get(id);
    if (held === undefined) return;
    held.slot.settleTokens(used);
    held.isReserved = false;
    if (held.hasLeft) this.#places.delete(id);
  }

  #leave(id: number): void {
    const held = this.#places.get(id);
    if (held === undefined) return;
    held.slot.leave();
    held.hasLeft = true;
    if (!held.isReserved) this.#places.delete(id);
  }

  async #borrow(needed: number, wanted: number): Promise<number> {
    const { bodyMemory } = this.#parts;
    for (const bytes of [wanted, needed]) {
      if (!(await bodyMemory.take(bytes))) continue;
      this.#lent += bytes;
      if (this.#isClosed) this.#giveBack(bytes);
      return bytes;
    }
    return 0;
  }

  #giveBack(bytes: number): void {
    this.#lent -= bytes;
    this.#parts.bodyMemory.give(bytes);
  }

  #event([name, given]: EventCall): void {
    const { events } = this.#parts;
    if (name === "requestStarted") {
      this.#running[given === "stream" ? "streams" : "requests"]++;
      events.requestStarted(given);
    } else if (name === "requestEnded") {
      this.#running.requests--;
      if (given.stream) this.#running.streams--;
      events.requestEnded(given);
    } else if (name === "admitted") events.admitted(given);
    else if (name === "refused") events.refused(given);
    else if (name === "unknownFields") events.unknownFields(given);
    else if (name === "streamBurst") events.streamBurst(given);
    else events.posted(given);
  }

  async #answer(request: RoutedRequest): Promise<RoutedAnswer> {
    const { routes, clock, work, changesHeard } = this.#parts;
    const route = routes[request.route];
    if (route === undefined) throw new Error(`there is no route ${request.route}`);
    const { id } = request;
    const readBody = (limitBytes: number | null) =>
      this.#link()
        .ask("readBody", { id, limitBytes })
        .catch(() => ({ ok: false, refusal: null }) as const);
    const exchange = new RoutedExchange(request, clock, readBody);
    this.#exchanges.set(id, exchange);
    const answering = route.handler(exchange);
    work.add(answering.then(() => undefined));
    try {
      const summary = await answering;
      // Who is told that a key is revoked finds it so at every worker.
      await changesHeard();
      return exchange.result(summary);
    } finally {
      this.#exchanges.delete(id);
    }
  }
}
