import { parseDoubts } from "../src/core/doubts.ts";
import { parseCanonicalPrice } from "../src/core/price.ts";
import { tokenClasses, type TokenCounts } from "../src/core/tokens.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { ChargeEnd, HoldRequest, Posting } from "../src/ports/ledger.ts";
import type { Outbox } from "../src/ports/outbox.ts";
import type { KeyStore } from "../src/ports/key-store.ts";
import type { TaskEnding, TaskStore } from "../src/ports/task-store.ts";
import { MemoryAccountSamples } from "../src/store/memory/account-samples.ts";
import { MemoryAdminStore } from "../src/store/memory/admins.ts";
import { MemoryAuditLog } from "../src/store/memory/audit-log.ts";
import { MemoryKeyStore } from "../src/store/memory/keys.ts";
import { MemoryLedger } from "../src/store/memory/ledger.ts";
import { MemoryOutbox } from "../src/store/memory/outbox.ts";
import { MemoryRunSessions } from "../src/store/memory/run-sessions.ts";
import { emptyState, type MemoryState } from "../src/store/memory/state.ts";
import { MemoryTaskCallbacks } from "../src/store/memory/task-callbacks.ts";
import { MemoryTaskStore } from "../src/store/memory/tasks.ts";
import { MemoryTeamStore } from "../src/store/memory/teams.ts";
import { postCommand, voidCommand } from "../src/store/commands.ts";
import type {
  Command,
  EndTaskCommand,
  HoldCommand,
  Outcome,
  PostCommand,
  PostNotes,
  Replies,
  VoidCommand,
} from "../src/store/commands.ts";
import type { LongRead, LongReadAnswers, LongReads } from "../src/store/long-reads.ts";
import { QueuedAccountSamples } from "../src/store/queued/account-samples.ts";
import { QueuedLedger } from "../src/store/queued/ledger.ts";
import type { RunCommand, RunReply, WriteName } from "../src/store/tables/tables.ts";
import { CommandQueue, submitOrThrow } from "../src/store/queue.ts";
import type { ShortReadings } from "../src/store/readings.ts";
import { billingOf } from "../src/store/rows/charges.ts";
import type { Store } from "../src/store/store.ts";
import type { Apply, Disk, Look } from "./disk.ts";

/** The stores of one opening, over the same state. */
interface Stores {
  readonly ledger: MemoryLedger;
  readonly keys: MemoryKeyStore;
  readonly samples: MemoryAccountSamples;
  readonly outbox: MemoryOutbox;
  readonly tasks: MemoryTaskStore;
  readonly sessions: MemoryRunSessions;
}

/**
 * The memory ledger as a disk: its state survives, and what runs on it sends commands through the product's own queue and
 * ledger, as to a database.
 */
export function memoryDisk(): Disk {
  const state = emptyState();
  return {
    open({ calendar, clock, through, afterTurn, onChanged }) {
      const stores = storesOver(state, calendar, clock.now());
      const listeners = new Set<() => void>();
      // Changes are announced by the state itself, to the one proxy that runs on it.
      state.listeners.clear();
      state.listeners.add(() => onChanged(() => listeners.forEach((listener) => listener())));
      const queue = new CommandQueue(
        through(writerOver(state, stores)),
        clock,
        { write() {}, changed() {} },
        10,
        afterTurn,
      );
      const onChange = (listener: () => void) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      };
      return { ...assembled(state, stores, queue), changes: { onChange }, timeZone: calendar.timeZone };
    },
    beside: (calendar) => storesOver(state, calendar, 0),
    look: lookAt(state),
  };
}

function storesOver(state: MemoryState, calendar: Calendar, now: number): Stores {
  const ledger = new MemoryLedger(calendar, state, now);
  return {
    ledger,
    keys: new MemoryKeyStore(state),
    samples: new MemoryAccountSamples(state),
    outbox: new MemoryOutbox(state),
    tasks: new MemoryTaskStore(state, ledger),
    sessions: new MemoryRunSessions(state),
  };
}

function assembled(state: MemoryState, stores: Stores, queue: CommandQueue): Omit<Store, "changes" | "timeZone"> {
  const { ledger, samples } = stores;
  const reads: ShortReadings = {
    charge: (id) => ledger.charge(id),
    price: (id) => ledger.price(id),
    pending: () => ledger.pending(),
    oldHolds: (before) => ledger.oldHolds(before),
    latestSample: () => samples.latest(),
    budgets: () => ledger.budgets(),
    windowsOf: (caller, at) => ledger.windowsOf(caller, at),
  };
  const longReads = longReadsOf(stores);
  const queued = {
    ledger: new QueuedLedger(queue, reads, longReads, longReads, (span) => ledger.stream(span)),
    samples: new QueuedAccountSamples(queue, reads, longReads),
  };
  return {
    ...queued,
    figures: queued,
    keys: queuedKeys(queue, stores.keys),
    teams: new MemoryTeamStore(state),
    admins: new MemoryAdminStore(state),
    audit: new MemoryAuditLog(state),
    outbox: queuedOutbox(queue, stores.outbox),
    tasks: queuedTasks(queue, stores.tasks),
    // Nobody turns the relay of webhooks on here.
    callbacks: new MemoryTaskCallbacks(state),
    sessions: new MemoryRunSessions(state),
    fleet: null,
    proxies: null,
    created: false,
    [Symbol.asyncDispose]: () => queue.close(),
  };
}

function longReadsOf({ ledger, samples }: Stores): LongReads {
  const read = async (asked: LongRead): Promise<LongReadAnswers[LongRead["kind"]]> => {
    switch (asked.kind) {
      case "charges":
        return ledger.charges(asked.query);
      case "recent":
        return ledger.recent(asked.query);
      case "report":
        return ledger.report(asked.query);
      case "spend":
        return ledger.spend(asked.query);
      case "windows":
        return ledger.windows(asked.at);
      case "untoldWindows":
        return ledger.untoldWindows(asked.at, asked.limit);
      case "prunedUntil":
        return ledger.prunedUntil();
      case "totals":
        return ledger.totals();
      case "corrections":
        return ledger.corrections(asked.since, asked.until);
      case "samples":
        return samples.list(asked.since, asked.until);
      case "verify":
        return ledger.verify();
      default:
        throw new Error(`nobody asks for ${asked.kind} here`);
    }
  };
  return { read: (asked) => read(asked) as never, close: async () => {} };
}

function queuedOutbox(queue: CommandQueue, memory: MemoryOutbox): Outbox {
  return {
    async put(messages) {
      const answer = await queue.submit(["putMessages", messages]);
      return answer.ok ? answer.reply : undefined;
    },
    tried: async (id, tried) => (await queue.submit(["triedMessage", id, tried])).ok,
    async remove(endedBefore, now) {
      const answer = await queue.submit(["removeMessages", endedBefore, now]);
      return answer.ok ? answer.reply : 0;
    },
    due: (query) => memory.due(query),
    waiting: () => memory.waiting(),
    list: (query) => memory.list(query),
  };
}

function queuedKeys(queue: CommandQueue, memory: MemoryKeyStore): KeyStore {
  return {
    create: (key, by = "test") => submitOrThrow(queue, ["run", "keys.create", [key, by]]),
    update: (id, change, at, by = "test") => submitOrThrow(queue, ["run", "keys.update", [id, change, at, by]]),
    revoke: (id, at, by = "test") => submitOrThrow(queue, ["run", "keys.revoke", [id, at, by]]),
    findById: (id) => memory.findById(id),
    find: (name) => memory.find(name),
    list: () => memory.list(),
    page: (query) => memory.page(query),
  };
}

function queuedTasks(queue: CommandQueue, memory: MemoryTaskStore): TaskStore {
  const unavailable = { ok: false, reason: "unavailable" } as const;
  return {
    async bind(task) {
      const answer = await queue.submit(["bindTask", task]);
      return answer.ok ? answer.reply : unavailable;
    },
    saw: async (taskId, sight) => (await queue.submit(["sawTask", taskId, sight])).ok,
    async end({ taskId, charge }, { settlement, end, ...facts }) {
      const settling =
        settlement.kind === "void" ? voidCommand(charge, settlement.reason, end) : postCommand(charge, settlement, end);
      const answer = await queue.submit(["endTask", settling, taskId, { ...facts, at: end.at }]);
      return answer.ok ? answer.reply : unavailable;
    },
    find: (taskId) => memory.find(taskId),
    ofCharge: (charge) => memory.ofCharge(charge),
    runningTasks: (...asked) => memory.runningTasks(...asked),
    due: (query) => memory.due(query),
    running: () => memory.running(),
    list: (query) => memory.list(query),
  };
}

/** Settlements first, then the others in their order, as the database's writer does. */
function writerOver(state: MemoryState, stores: Stores): Apply {
  return async (commands) => {
    const outcomes: Outcome[] = commands.map(() => ({ kind: "failed", message: "not applied" }));
    const isSettlement = (index: number) => ["post", "void", "endTask"].includes(commands[index]?.[0] ?? "");
    const places = commands.map((_, index) => index);
    for (const index of [...places.filter(isSettlement), ...places.filter((place) => !isSettlement(place))]) {
      const command = commands[index];
      if (command === undefined) continue;
      try {
        outcomes[index] = { kind: "done", reply: await run(state, stores, command) };
      } catch (error) {
        outcomes[index] = { kind: "failed", message: error instanceof Error ? error.message : String(error) };
      }
    }
    return { outcomes, seconds: 0.001, changed: false };
  };
}

async function run(
  state: MemoryState,
  { ledger, keys, samples, outbox, tasks }: Stores,
  command: Command,
): Promise<Replies[keyof Replies]> {
  switch (command[0]) {
    case "hold":
      return ledger.hold(holdRequest(state, command));
    case "extend":
      return ledger.extend(command[1], command[2], command[3]);
    case "post":
      return ledger.post(command[1], posting(command), chargeEnd(command[9]));
    case "void":
      return ledger.void(command[1], command[2], chargeEnd(command[3]));
    case "written":
      return ledger.writtenFor(command[1], command[2], command[3]) as Promise<Replies["written"]>;
    case "streams":
      return ledger.burstMarks(command[1], command[2]) as Promise<Replies["streams"]>;
    case "adjust":
      return ledger.adjust(command[1], command[2]);
    case "setBudget":
      return ledger.setBudget(command[1], command[2], command[3]);
    case "removeBudget":
      return ledger.removeBudget(command[1], command[2], command[3], command[4]);
    case "run":
      return written(keys, command);
    case "addSample":
      return samples.add(command[1]) as Promise<true>;
    case "removeSamples":
      await samples.remove(command[1]);
      return command[1].length;
    case "putMessages":
      return outbox.put(command[1]);
    case "triedMessage":
      return outbox.tried(command[1], command[2]) as Promise<true>;
    case "removeMessages":
      return outbox.remove(command[1], command[2]);
    case "recover":
      return ledger.recover(command[1]);
    case "bindTask":
      return tasks.bind(command[1]);
    case "sawTask":
      return tasks.saw(command[1], command[2]) as Promise<true>;
    case "endTask":
      return tasks.end({ taskId: command[2], charge: command[1][1] }, ending(command));
    case "touch":
      return true;
    default:
      throw new Error(`nobody orders ${command[0]} here`);
  }
}

function written(keys: MemoryKeyStore, command: RunCommand): Promise<RunReply<WriteName>> {
  switch (command[1]) {
    case "keys.create":
      return keys.create(...command[2]);
    case "keys.update":
      return keys.update(...command[2]);
    case "keys.revoke":
      return keys.revoke(...command[2]);
    default:
      throw new Error(`the simulation has no ${command[1]}`);
  }
}

/** A price's text comes with its first hold only; one that was never written is missing, as `verify` would say. */
function holdRequest(state: MemoryState, command: HoldCommand): HoldRequest {
  const [
    ,
    id,
    kind,
    at,
    key,
    team,
    route,
    model,
    group,
    stream,
    priceId,
    canonical,
    amount,
    bounded,
    tags,
    retry,
    firstSlice,
    basis,
    sliceTokens,
  ] = command;
  return {
    id,
    kind,
    at,
    caller: { key, team },
    route,
    model,
    group,
    stream,
    amount,
    bounded,
    retry,
    price: priceId === null ? null : { id: priceId, canonical: canonical ?? state.prices.get(priceId) ?? "" },
    tags: tags === null ? {} : (JSON.parse(tags) as Record<string, string>),
    ...(firstSlice !== null && { firstSlice }),
    ...(sliceTokens !== null && { sliceTokens }),
    basis: basis && { by: basis[0], outputTokens: basis[1], outputCap: basis[2], fitted: basis[3] },
  };
}

function posting([
  ,
  ,
  cost,
  listCost,
  formula,
  source,
  minimumApplied,
  clamped,
  reason,
  ,
  counts,
  notes,
]: PostCommand): Posting {
  const tokens = Object.fromEntries(
    tokenClasses.map((name, index) => [name, counts[index] ?? 0]),
  ) as unknown as TokenCounts;
  return {
    kind: "post",
    cost,
    listCost,
    formula,
    source,
    minimumApplied,
    clamped,
    reason,
    tokens,
    ...(notes !== null && notesOf(notes)),
  };
}

function ending([, settling, , { at: _at, ...facts }]: EndTaskCommand): TaskEnding {
  if (settling[0] === "post") return { ...facts, settlement: posting(settling), end: chargeEnd(settling[9]) };
  return { ...facts, settlement: { kind: "void", reason: settling[2] }, end: chargeEnd(settling[3]) };
}

function chargeEnd([at, status, servedModel, gatewayRequestId, durationMs, firstTokenMs]: VoidCommand[3]): ChargeEnd {
  return { at, status, servedModel, gatewayRequestId, durationMs, firstTokenMs };
}

function lookAt(state: MemoryState): Look {
  return {
    charge: (id) => state.charges.get(id),
    pendingIds: () => [...state.charges.values()].filter((charge) => charge.state === "pending").map(({ id }) => id),
    budgets: () => [...state.budgets.values()],
    keys: () => [...state.keys.values()],
    task: (id) => state.tasks.get(id),
    isOfTask: (charge) => [...state.tasks.values()].some((task) => task.charge === charge),
    messages: () => [...state.messages.values()],
    price(id) {
      const canonical = state.prices.get(id);
      return canonical === undefined || canonical === "" ? undefined : parseCanonicalPrice(canonical);
    },
  };
}

/** What `postCommand` wrote for the few charges that have it. */
function notesOf(notes: PostNotes): Partial<Posting> {
  const { served_price_id: id, servedCanonical: canonical, delivered_input: input, delivered_output: output } = notes;
  return {
    ...(id !== null &&
      canonical !== null && { servedPrice: { id, canonical, version: parseCanonicalPrice(canonical) } }),
    ...(input !== null && output !== null && { delivered: { input, output } }),
    billing: billingOf(notes),
    doubts: parseDoubts(notes.doubts),
  };
}
