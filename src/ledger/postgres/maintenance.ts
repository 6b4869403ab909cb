import type { PostgresServer } from "../../core/postgres-url.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { MaintainedLedger, MaintenanceFailure, OpenLedger } from "../maintenance.ts";
import { schemaProblem, type MigrationResult } from "../migrations.ts";
import { postgresDialect } from "../queries/dialects.ts";
import { userScopesSql } from "../queries/scope-sql.ts";
import type { OpenFailure } from "../store.ts";
import { runsTask } from "../tables/tasks.ts";
import { answer } from "./answer.ts";
import { applyBudgetStep } from "./budget-steps.ts";
import { connect, databaseFault, type Database } from "./connection.ts";
import { knownSchema, migrate, readingProblem, schemaOfServer } from "./migrate.ts";
import { isLiveProxy } from "./owners.ts";
import { dropEmptiedMonths } from "./partitions.ts";
import { hasOwnFunctions } from "./schema.ts";
import { storedCalendar } from "./time-zone.ts";
import { verify } from "./verify.ts";

/**
 * Upgrades a ledger to the schema and functions of this release. Fails while a proxy runs on the ledger. `create`: true
 * to create a missing ledger.
 */
export async function migrateServer(
  server: PostgresServer,
  { create }: { readonly create: boolean },
): Promise<MigrationResult> {
  return onServer<MigrationResult>(server, async (database) => {
    if (!create && (await schemaOfServer(database)) === 0) return { ok: false, failure: { kind: "missing" } };
    return migrate(database, { forward: true });
  });
}

/** State of a ledger on a server. */
export interface ServerState {
  readonly schema: number;
  readonly known: number;
  /** True if the ledger's functions are those of this release. */
  readonly hasOwnFunctions: boolean;
  /** Version that the server reports. */
  readonly version: string;
  readonly isEncrypted: boolean;
  /** True if the role may create partitions. */
  readonly mayCreate: boolean;
  /** State of the ledger's contents; null if the schema is older, or if there is no ledger. */
  readonly ledger: {
    readonly timeZone: string | null;
    /** Pending charges, except those of known tasks. */
    readonly pending: { readonly count: number; readonly oldestAt: number | null };
    /** Scopes of budgets on users. */
    readonly userScopes: readonly string[];
    /** Number of proxies that run on the ledger. */
    readonly proxies: number;
  } | null;
}

type ServerInspection = { readonly ok: true; readonly state: ServerState } | MaintenanceFailure<OpenFailure>;

export async function inspectServer(server: PostgresServer): Promise<ServerInspection> {
  return onServer<ServerInspection>(server, async (database) => {
    const known = knownSchema();
    const schema = await schemaOfServer(database);
    const failure = schema === 0 ? null : schemaProblem("postgres", schema, { forward: true });
    if (failure !== null) return { ok: false, failure };
    const facts = await database.row<{ version: string; encrypted: boolean | null; may: boolean | null }>(
      `select current_setting('server_version') as version, (select ssl from pg_stat_ssl where pid = pg_backend_pid()) as encrypted,
         has_schema_privilege(current_schema(), 'create') as may`,
    );
    const state = {
      schema,
      known,
      hasOwnFunctions: schema > 0 && (await hasOwnFunctions(database)),
      version: facts?.version ?? "?",
      isEncrypted: facts?.encrypted === true,
      mayCreate: facts?.may === true,
    };
    return { ok: true, state: { ...state, ledger: schema === known ? await ledgerOf(database) : null } };
  });
}

async function ledgerOf(database: Database): Promise<ServerState["ledger"]> {
  const row = await database.row<{ zone: string | null; count: bigint; oldest: bigint | null; proxies: bigint }>(
    `select (select time_zone from meta) as zone, count(*) as count, min(admitted_at) as oldest,
       (select count(*) from owners where ${isLiveProxy}) as proxies
     from charges where state = 'pending' and not ${runsTask}`,
  );
  if (row === undefined) return null;
  const oldestAt = row.oldest === null ? null : Number(row.oldest);
  const userScopes = (await database.rows<{ scope: string }>(userScopesSql)).map(({ scope }) => scope);
  const pending = { count: Number(row.count), oldestAt };
  return { timeZone: row.zone, pending, userScopes, proxies: Number(row.proxies) };
}

/**
 * Returns a function that opens the ledger on a server for maintenance. Maintenance works in small steps, and proxies
 * wait for at most one of them.
 */
export function ledgerOn(server: PostgresServer): OpenLedger {
  return (work, { calendar }) =>
    onServer(server, async (database) => {
      const failure = await readingProblem(database);
      if (failure !== null) return { ok: false, failure } as const;
      return await work(maintained(database, await storedCalendar(database, calendar)));
    });
}

/** Wraps a connected database as a ledger for maintenance. */
export function maintained(database: Database, calendar: Calendar): MaintainedLedger {
  return {
    dialect: postgresDialect,
    calendar,
    verify: (options) => verify(database, { calendar, ...options }),
    read: (query) => database.transaction((db) => answer(db, query), "snapshot"),
    write: (query) => database.transaction((db) => answer(db, query(), (step) => applyBudgetStep(db, calendar, step))),
    freeSpace: (before) => dropEmptiedMonths(database, before),
  };
}

/** Connects to a server, runs `work` and returns its result. Returns a failure if the server or the network fails. */
async function onServer<R>(
  server: PostgresServer,
  work: (database: Database) => Promise<R>,
): Promise<R | MaintenanceFailure<OpenFailure>> {
  try {
    await using database = connect(server, { applicationName: "farebox", max: 2, statementMs: null, lockMs: 60_000 });
    return await work(database);
  } catch (error) {
    const message = databaseFault(error);
    if (message === null) throw error;
    return { ok: false, failure: { kind: "unusable", message } };
  }
}
