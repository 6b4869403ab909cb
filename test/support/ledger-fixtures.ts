import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Budget, BudgetMode, Period } from "../../src/core/budget.ts";
import type { Caller, Scope } from "../../src/core/scope.ts";
import { costOf } from "../../src/core/cost.ts";
import type { Key } from "../../src/core/keys.ts";
import { noRateLimits } from "../../src/core/rate-limits.ts";
import { usd, type PicoUsd, type PicoUsdPerToken } from "../../src/core/money.ts";
import { canonicalPrice, type PriceVersion, type Rates } from "../../src/core/price.ts";
import { parsePostgresUrl } from "../../src/core/postgres-url.ts";
import { noTokens, tokenClasses, type TokenCounts } from "../../src/core/usage.ts";
import type { Calendar } from "../../src/ports/calendar.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { ChargeEnd, HoldRequest, Posting } from "../../src/ports/ledger.ts";
import type { NewMessage } from "../../src/ports/outbox.ts";
import type { NewTask, Store } from "../../src/ports/stores.ts";
import { openPostgres, type OpenPostgresOptions } from "../../src/ledger/postgres/open.ts";
import { inProcessChannel, openOver, openSqlite, type OpenOptions } from "../../src/ledger/sqlite/open.ts";
import { calendarOf } from "../../src/platform/clock.ts";
import { emptyLedger } from "../../simulation/disk.ts";
import { manualClock } from "./manual-clock.ts";
import { writeEmptyLedger } from "./new-ledger.ts";
import { newDatabase, type TestDatabase } from "./shared-postgres.ts";
import { contentId } from "../../src/wire/content-id.ts";

export const noon = Date.parse("2026-11-20T12:00:00Z");

/** A price of USD 1 in and 4 out per million tokens; official rates are twice that. */
export const price: PriceVersion = {
  model: "model-a",
  group: "general",
  fraction: "0.5",
  from: "2026-01-01",
  until: null,
  source: "test",
  tierMode: "whole_request",
  tiers: [{ fromPromptTokens: 0, charged: rates(1_000_000n, 4_000_000n), list: rates(2_000_000n, 8_000_000n) }],
  perRequest: null,
  minimum: { tokens: 0, usd: usd("0") },
};
export const canonical = canonicalPrice(price);
export const priceId = contentId(canonical);

function rates(input: bigint, output: bigint): Rates {
  const rateOf = (name: string) => (/output|reasoning/.test(name) ? output : input) as PicoUsdPerToken;
  return Object.fromEntries(tokenClasses.map((name) => [name, rateOf(name)])) as unknown as Rates;
}

export const alice: Caller = { key: "k-alice", team: "red" };
export const bob: Caller = { key: "k-bob", team: "red" };

export function holdOf(id: string, amount: PicoUsd | null, more: Partial<HoldRequest> = {}): HoldRequest {
  return {
    id,
    kind: "request",
    at: noon,
    caller: alice,
    route: "chat",
    model: "model-a",
    group: "general",
    stream: false,
    price: amount === null ? null : { id: priceId, canonical },
    amount,
    bounded: true,
    tags: {},
    retry: 0,
    ...more,
  };
}

export function tokens(input: number, output: number): TokenCounts {
  return { ...noTokens, input, output };
}

/** Returns the posting of metered tokens at the fixture's price: USD 0.000001 per token in, 0.000004 out. */
export function posting(input: number, output: number): Posting {
  const cost = costOf(price, tokens(input, output));
  return {
    kind: "post",
    cost: cost.charged,
    listCost: cost.list,
    tokens: tokens(input, output),
    formula: "tokens",
    source: "reported",
    minimumApplied: false,
    clamped: false,
    reason: null,
  };
}

export function assumed(hold: PicoUsd | null): Posting {
  return {
    kind: "post",
    cost: hold,
    listCost: hold,
    tokens: noTokens,
    formula: hold === null ? "unpriced" : "assumed",
    source: "assumed",
    minimumApplied: false,
    clamped: false,
    reason: "gateway_reset",
  };
}

export function endAt(at: number): ChargeEnd {
  return { at, status: 200, servedModel: "model-a-1", gatewayRequestId: "gw-1", durationMs: 12.5, firstTokenMs: 3 };
}

export function budget(scope: Scope, period: Period, limit: string, mode: BudgetMode = "hard"): Omit<Budget, "id"> {
  return { scope, period, mode, limit: usd(limit), warnPercent: null };
}

export function key(name: string, more: Partial<Key> = {}): Key {
  const digest = createHash("sha256").update(name).digest("hex");
  return {
    id: `id-${name}`,
    name,
    team: null,
    digest,
    models: null,
    limits: noRateLimits,
    outputCap: null,
    hostedTools: null,
    labels: {},
    tags: {},
    user: null,
    requires: [],
    createdAt: noon,
    expiresAt: null,
    revokedAt: null,
    suspendedAt: null,
    rotatedAt: null,
    previous: null,
    ...more,
  };
}

/** Returns an alert for the receiver `red`. */
export function message(id: string, more: Partial<NewMessage> = {}): NewMessage {
  return {
    id,
    kind: "alert",
    target: "red",
    dedupeKey: `key of ${id}`,
    keyUntil: noon,
    payload: `{"id":"${id}"}`,
    createdAt: noon,
    ...more,
  };
}

export interface TempFolder extends Disposable {
  readonly path: string;
  readonly database: string;
}

export function tempFolder(): TempFolder {
  const path = mkdtempSync(join(tmpdir(), "farebox-"));
  return {
    path,
    database: join(path, "ledger.db"),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

/** Opens a store and throws if it cannot be opened. */
export async function openStore(options: OpenOptions): Promise<Store> {
  const result = await openSqlite(options);
  if (!result.ok) throw new Error(`not opened: ${JSON.stringify(result.failure)}`);
  return result.store;
}

/** Home of a ledger that can be opened repeatedly, as after restarts. Only one store is open at a time. */
interface LedgerHome extends AsyncDisposable {
  /** Path of its file, if it has one. */
  readonly database: string | null;
  open(zone?: string): Promise<Store>;
}

export interface LedgerKind {
  readonly name: string;
  readonly newHome: (clock: Clock, more?: Pick<OpenOptions, "subjectsMax">) => LedgerHome;
}

export const utc: Calendar = calendarOf("UTC");

interface MemoryStoreOptions {
  readonly calendar?: Calendar;
  readonly clock?: Clock;
}

/** Opens a ledger on SQLite in memory, whose writes complete within the same turn of the event loop. */
export function memoryStore({ calendar = utc, clock = manualClock(noon) }: MemoryStoreOptions = {}): Store {
  const afterTurn = (callback: () => void) => callback();
  return openOver(emptyLedger(), { calendar, clock, afterTurn }, inProcessChannel);
}

function sqliteHome(clock: Clock, how: Pick<OpenOptions, "access" | "threads" | "subjectsMax">): LedgerHome {
  const folder = tempFolder();
  return {
    database: folder.database,
    open(zone = "UTC") {
      writeEmptyLedger(folder.database);
      return openStore({ path: folder.database, calendar: calendarOf(zone), clock, ...how });
    },
    [Symbol.asyncDispose]: async () => folder[Symbol.dispose](),
  };
}

function postgresHome(clock: Clock, more: Pick<OpenPostgresOptions, "subjectsMax"> = {}): LedgerHome {
  let made: Promise<TestDatabase> | null = null;
  return {
    database: null,
    async open(zone = "UTC") {
      made ??= newDatabase();
      return openPostgresStore({ url: (await made).url, calendar: calendarOf(zone), clock, access: "serve", ...more });
    },
    [Symbol.asyncDispose]: async () => (await made)?.[Symbol.asyncDispose](),
  };
}

/** Opens a store in a test's database and throws if it cannot be opened. */
export async function openPostgresStore({
  url,
  ...options
}: Omit<OpenPostgresOptions, "server"> & { readonly url: string }): Promise<Store> {
  const parsed = parsePostgresUrl(url);
  const result = parsed.ok ? await openPostgres({ ...options, server: parsed.server }) : parsed;
  if (!result.ok) throw new Error(`not opened: ${JSON.stringify(result)}`);
  return result.store;
}

/** SQLite as a command opens it. */
export const sqliteKind: LedgerKind = {
  name: "sqlite in process",
  newHome: (clock, more) => sqliteHome(clock, { ...more, access: "command" }),
};

/** SQLite as `serve` opens it, without the threads, which take most of the time. */
export const servedKind: LedgerKind = {
  name: "sqlite as served",
  newHome: (clock, more) => sqliteHome(clock, { ...more, access: "serve", threads: false }),
};

export const threadsKind: LedgerKind = {
  name: "sqlite in threads",
  newHome: (clock, more) => sqliteHome(clock, { ...more, access: "serve", threads: true }),
};

export const postgresKind: LedgerKind = { name: "postgres", newHome: (clock, more) => postgresHome(clock, more) };

/** Stores that the contracts run on: `npm test` uses one thread, and `npm run test:rest` runs the others. */
const place = process.env["TEST_STORE"] ?? "local";
export const onPostgres = place === "postgres";
export const inThreads = place === "threads";

export const ledgerKinds: readonly LedgerKind[] = onPostgres
  ? [postgresKind]
  : inThreads
    ? [threadsKind]
    : [sqliteKind, servedKind];

/** Returns a task that is bound to a pending charge, by the charge's id. */
export function taskOf(charge: string, more: Partial<NewTask> = {}): NewTask {
  return {
    taskId: `task-${charge}`,
    charge,
    key: alice.key,
    model: "model-a",
    taskType: "video",
    status: "pending",
    createdAt: noon,
    startedAt: null,
    deadlineAt: noon + 86_400_000,
    quantity: "5",
    nextPollAt: noon + 3_000,
    ...more,
  };
}
