import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Client } from "pg";
import type { PostgresServer } from "../../core/postgres-url.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Fleet } from "../../ports/fleet.ts";
import type { BatchChannel } from "../commands.ts";
import { Health } from "../health.ts";
import { olderSchema } from "../migrations.ts";
import { ChangeListeners, queuedStore, refusing } from "../queued-store.ts";
import { CommandQueue } from "../queue.ts";
import type { OpenFailure, OpenResult, QueuedStore, StoreOptions } from "../store.ts";
import { answer } from "./answer.ts";
import { changesIn, ChangeWatch } from "./changes.ts";
import { clientConfig, connect, databaseFault, type ConnectOptions, type Database } from "./connection.ts";
import { PostgresFleet } from "./fleet.ts";
import type { LeasePolicy } from "./leases.ts";
import { longQueries } from "./long-queries.ts";
import { knownSchema, migrate, schemaOf } from "./migrate.ts";
import { CommandRun, Owner, type Beat } from "./owners.ts";
import { ensureMonths } from "./partitions.ts";
import { PostgresProxies } from "./proxies.ts";
import { PostgresQueries } from "./short-queries.ts";
import { storedCalendar, applyTimeZone, storedTimeZone } from "./time-zone.ts";
import { streamCharges } from "./stream.ts";
import { PostgresWriter } from "./writer.ts";

export interface OpenPostgresOptions extends StoreOptions {
  readonly server: PostgresServer;
  /** Policy for leases; `auto` unless given. */
  readonly leases?: LeasePolicy;
}

/** Time limits in milliseconds. A command may wait for a busy server; a request does not. */
const waits = {
  serve: { statementMs: 5_000, lockMs: 4_000 },
  command: { statementMs: 60_000, lockMs: 30_000 },
  read: { statementMs: 60_000, lockMs: 30_000 },
} as const;

/** Default of a request's longest life. Milliseconds. */
const requestLifeMs = 2 * 3_600_000;
/** Margin added to a request's life before a silent proxy is dead. Milliseconds. */
const marginMs = 5_000;

/** Opens the store in one PostgreSQL database. */
export async function openPostgres(options: OpenPostgresOptions): Promise<OpenResult> {
  // Closes everything opened so far if a later step fails.
  const opened = new AsyncDisposableStack();
  try {
    const pools = openPools(options, opened);
    const result =
      options.access === "read" ? await openToRead(options, opened, pools) : await openToWrite(options, opened, pools);
    if (!result.ok) await opened.disposeAsync();
    return result;
  } catch (error) {
    await opened.disposeAsync();
    const message = databaseFault(error);
    if (message === null) throw error;
    return { ok: false, failure: { kind: "unusable", message } };
  }
}

interface Pools {
  /** Prefix of the names of all their connections, unique to this process. */
  readonly name: string;
  /** For writes and for queries that a request waits for. */
  readonly short: Database;
  /** For long queries. */
  readonly long: Database;
  /** For a running proxy's heartbeats, which wait for nothing else. */
  readonly beats: Database;
  /** For figures that are queried often. */
  readonly figures: Database;
}

function openPools({ server, access }: OpenPostgresOptions, opened: AsyncDisposableStack): Pools {
  const name = `farebox ${access} ${randomUUID().slice(0, 8)}`;
  const open = (what: string, max: number, more: Omit<ConnectOptions, "applicationName" | "max">) =>
    opened.use(connect(server, { applicationName: name + what, max, readOnly: access === "read", ...more }));
  const short = open("", access === "serve" ? 6 : 2, waits[access]);
  const long = open(", long reads", 3, { statementMs: null });
  if (access !== "serve") return { name, short, long, beats: short, figures: long };
  return {
    name,
    short,
    long,
    beats: open(", beats", 2, waits.serve),
    figures: open(", figures", 2, { statementMs: null }),
  };
}

async function openToRead(
  options: OpenPostgresOptions,
  opened: AsyncDisposableStack,
  pools: Pools,
): Promise<OpenResult> {
  const failure = await unreadable(pools.short);
  if (failure !== null) return { ok: false, failure };
  const calendar = await storedCalendar(pools.short, options.calendar);
  return {
    ok: true,
    store: assemble(options, opened, {
      pools,
      calendar,
      channel: refusing,
      created: false,
      listeners: new ChangeListeners(),
    }),
  };
}

async function unreadable(database: Database): Promise<OpenFailure | null> {
  const found = await schemaOf(database);
  const known = knownSchema();
  if (found > known) return { kind: "newer_schema", found, known };
  if (found === 0) return { kind: "missing" };
  return found < known ? olderSchema(found, known) : null;
}

async function openToWrite(
  options: OpenPostgresOptions,
  opened: AsyncDisposableStack,
  pools: Pools,
): Promise<OpenResult> {
  const migrated = await migrate(pools.long);
  if (!migrated.ok) return migrated;
  const created = migrated.from === 0;
  await ensureMonths(pools.short, options.clock.now());
  return options.access === "serve"
    ? await openProxy(options, opened, pools, created)
    : await openCommand(options, opened, pools, created);
}

async function openCommand(
  options: OpenPostgresOptions,
  opened: AsyncDisposableStack,
  pools: Pools,
  created: boolean,
): Promise<OpenResult> {
  const { clock } = options;
  const calendar = await storedCalendar(pools.short, options.calendar);
  if ((await storedTimeZone(pools.short)) === null)
    await applyTimeZone(pools.long, calendar, { at: clock.now(), except: null });
  const run = opened.use(
    new CommandRun({ database: pools.short, clock, instance: instanceName(), lifeMs: lifeMs(options) }),
  );
  const channel = new PostgresWriter({ database: pools.short, clock, calendar, run, leases: "never" });
  return {
    ok: true,
    store: assemble(options, opened, { pools, calendar, channel, created, listeners: new ChangeListeners() }),
  };
}

async function openProxy(
  options: OpenPostgresOptions,
  opened: AsyncDisposableStack,
  pools: Pools,
  created: boolean,
): Promise<OpenResult> {
  const { calendar, clock, server } = options;
  const listeners = new ChangeListeners();
  const seen = await changesIn(pools.short);
  const newClient = () =>
    new Client(
      clientConfig(server, { applicationName: `${pools.name}, changes`, statementMs: waits.serve.statementMs }),
    );
  const watch = opened.use(
    new ChangeWatch({ newClient, clock, ownName: pools.name, seen, onChange: () => listeners.notify() }),
  );
  let fleet: PostgresFleet | null = null;
  const onBeat = ({ changes, peers }: Beat) => {
    watch.saw(changes);
    fleet?.updatePeers(peers);
  };
  const owner = opened.use(
    await Owner.start({ database: pools.beats, clock, instance: instanceName(), lifeMs: lifeMs(options), onBeat }),
  );
  fleet = new PostgresFleet(pools.beats, owner, options.version);
  if ((await storedTimeZone(pools.short)) !== calendar.timeZone) {
    const failure = await applyTimeZone(pools.long, calendar, { at: clock.now(), except: owner.known() });
    if (failure !== null) return { ok: false, failure };
  }
  await watch.start();
  const channel = new PostgresWriter({
    database: pools.short,
    clock,
    calendar,
    run: owner,
    leases: options.leases ?? "auto",
  });
  return { ok: true, store: assemble(options, opened, { pools, calendar, channel, created, listeners, fleet }) };
}

interface Parts {
  readonly pools: Pools;
  readonly calendar: Calendar;
  readonly channel: BatchChannel;
  readonly created: boolean;
  readonly listeners: ChangeListeners;
  /** Null unless given. */
  readonly fleet?: Fleet;
}

function assemble(
  options: OpenPostgresOptions,
  opened: AsyncDisposableStack,
  { pools, calendar, channel, created, listeners, fleet }: Parts,
): QueuedStore {
  const { clock, onWrite: write = () => {}, onEvent = () => {}, settlePauseMs, afterTurn } = options;
  const health = new Health(clock, onEvent);
  const queue = new CommandQueue(
    channel,
    clock,
    { write, changed: () => listeners.notify(), health },
    settlePauseMs,
    afterTurn,
  );
  opened.defer(() => queue.close());
  const [short, long, figures] = [pools.short, pools.long, pools.figures].map((pool) => pool.forQueries()) as [
    Database,
    Database,
    Database,
  ];
  return queuedStore({
    queue,
    short: new PostgresQueries(short, calendar),
    query: (query) => answer(short, query),
    longQueries: longQueries(long, calendar),
    figureQueries: longQueries(figures, calendar),
    stream: (span) => streamCharges(long, span),
    changes: listeners,
    fleet: fleet ?? null,
    proxies: new PostgresProxies(pools.short, calendar),
    timeZone: calendar.timeZone,
    created,
    close: () => opened.disposeAsync(),
  });
}

function lifeMs(options: OpenPostgresOptions): number {
  return (options.requestLifeMs ?? requestLifeMs) + marginMs;
}

/** Returns the host and process, for people. */
function instanceName(): string {
  return `${hostname()}/${process.pid}`;
}
