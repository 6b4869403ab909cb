import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Client } from "pg";
import type { PostgresServer } from "../../core/postgres-url.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Fleet } from "../../ports/fleet.ts";
import type { BatchChannel } from "../commands.ts";
import { Health } from "../queue.ts";
import { ChangeListeners, queuedStore, readOnlyChannel } from "../queued-store.ts";
import type { OpenResult, QueuedStore, StoreOptions } from "../store.ts";
import { answer } from "./answer.ts";
import { changesIn, ChangeWatch } from "./changes.ts";
import { clientConfig, connect, databaseFault, type ConnectOptions, type Database } from "./connection.ts";
import { PostgresFleet } from "./fleet.ts";
import { CommandRun, Owner, type Beat } from "./owners.ts";
import { longQueries, postgresShortQueries, streamCharges } from "./queries.ts";
import { migrate, readingProblem } from "./migrate.ts";
import { ensureMonths } from "./partitions.ts";
import { PostgresProxies } from "./proxies.ts";
import { applyTimeZone, storedCalendar, storedTimeZone } from "./time-zone.ts";
import { PostgresWriter } from "./writer.ts";
import { hourMs } from "../../core/time.ts";

export interface OpenPostgresOptions extends StoreOptions {
  readonly server: PostgresServer;
}

/** Time limits of statements, in milliseconds. A CLI command may wait longer for a busy server than a request. */
const statementLimits = {
  serve: { statementMs: 5_000, lockMs: 4_000 },
  command: { statementMs: 60_000, lockMs: 30_000 },
  read: { statementMs: 60_000, lockMs: 30_000 },
} as const;

/** Default for the longest duration of a request, in milliseconds. */
const requestLifeMs = 2 * hourMs;
/** Margin after the longest duration of a request until a silent proxy is considered dead, in milliseconds. */
const marginMs = 5_000;

/** Opens the store in a PostgreSQL database. */
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
  /** Prefix of the names of all connections. Unique to this process. */
  readonly name: string;
  /** Pool for writes, and for queries that a request waits for. */
  readonly short: Database;
  /** Pool for long queries. */
  readonly long: Database;
  /** Pool for the heartbeats of a running proxy. They must not wait for other statements. */
  readonly beats: Database;
  /** Pool for the queries of `FigureQueries`. */
  readonly figures: Database;
}

function openPools({ server, access }: OpenPostgresOptions, opened: AsyncDisposableStack): Pools {
  const name = `farebox ${access} ${randomUUID().slice(0, 8)}`;
  const open = (suffix: string, max: number, more: Omit<ConnectOptions, "applicationName" | "max">) =>
    opened.use(connect(server, { applicationName: name + suffix, max, readOnly: access === "read", ...more }));
  const short = open("", access === "serve" ? 6 : 2, statementLimits[access]);
  const long = open(", long reads", 3, { statementMs: null });
  if (access !== "serve") return { name, short, long, beats: short, figures: long };
  return {
    name,
    short,
    long,
    beats: open(", beats", 2, statementLimits.serve),
    figures: open(", figures", 2, { statementMs: null }),
  };
}

async function openToRead(
  options: OpenPostgresOptions,
  opened: AsyncDisposableStack,
  pools: Pools,
): Promise<OpenResult> {
  const failure = await readingProblem(pools.short);
  if (failure !== null) return { ok: false, failure };
  const calendar = await storedCalendar(pools.short, options.calendar);
  return { ok: true, store: assemble(options, opened, { pools, calendar, channel: readOnlyChannel }) };
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
  const channel = new PostgresWriter({ database: pools.short, clock, calendar, run });
  return { ok: true, store: assemble(options, opened, { pools, calendar, channel, created }) };
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
      clientConfig(server, {
        applicationName: `${pools.name}, changes`,
        statementMs: statementLimits.serve.statementMs,
      }),
    );
  const watch = opened.use(
    new ChangeWatch({ newClient, clock, ownName: pools.name, seen, onChange: () => listeners.notify() }),
  );
  let fleet: PostgresFleet | null = null;
  const onBeat = ({ changes, peers }: Beat) => {
    watch.updateCounter(changes);
    fleet?.updatePeers(peers);
  };
  const owner = opened.use(
    await Owner.start({ database: pools.beats, clock, instance: instanceName(), lifeMs: lifeMs(options), onBeat }),
  );
  fleet = new PostgresFleet(pools.beats, owner, options.version);
  if ((await storedTimeZone(pools.short)) !== calendar.timeZone) {
    const failure = await applyTimeZone(pools.long, calendar, { at: clock.now(), except: owner.knownEpoch() });
    if (failure !== null) return { ok: false, failure };
  }
  await watch.start();
  const channel = new PostgresWriter({
    database: pools.short,
    clock,
    calendar,
    run: owner,
    subjectsMax: options.subjectsMax,
  });
  return { ok: true, store: assemble(options, opened, { pools, calendar, channel, created, listeners, fleet }) };
}

interface Parts {
  readonly pools: Pools;
  readonly calendar: Calendar;
  readonly channel: BatchChannel;
  readonly created?: boolean;
  readonly listeners?: ChangeListeners;
  readonly fleet?: Fleet;
}

function assemble(
  options: OpenPostgresOptions,
  opened: AsyncDisposableStack,
  { pools, calendar, channel, created = false, listeners = new ChangeListeners(), fleet }: Parts,
): QueuedStore {
  const [short, long, figures] = [pools.short, pools.long, pools.figures].map((pool) => pool.forQueries()) as [
    Database,
    Database,
    Database,
  ];
  return queuedStore(options, opened, {
    channel,
    health: new Health(options.clock, options.onEvent ?? (() => {})),
    short: postgresShortQueries(short, calendar),
    query: (query) => answer(short, query),
    longQueries: longQueries(long, short, calendar),
    figureQueries: longQueries(figures, short, calendar),
    stream: (span) => streamCharges(long, span),
    changes: listeners,
    fleet,
    proxies: new PostgresProxies(pools.short, calendar),
    timeZone: calendar.timeZone,
    created,
  });
}

/** Returns the time after which a silent process is considered dead, in milliseconds. */
function lifeMs(options: OpenPostgresOptions): number {
  return (options.requestLifeMs ?? requestLifeMs) + marginMs;
}

/** Returns a readable name of this process: the host and the process id. */
function instanceName(): string {
  return `${hostname()}/${process.pid}`;
}
