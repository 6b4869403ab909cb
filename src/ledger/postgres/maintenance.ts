import type { PostgresServer } from "../../core/postgres-url.ts";
import { olderSchema } from "../migrations.ts";
import type { OpenFailure } from "../store.ts";
import { connect, databaseFault, type Database } from "./connection.ts";
import { knownSchema, migrate, schemaOf, type SchemaResult } from "./migrate.ts";
import { hasOwnFunctions } from "./schema.ts";

interface Failed {
  readonly ok: false;
  readonly failure: OpenFailure;
}

/** Upgrades a ledger to the schema and functions of this release, only while no proxy runs on it. `create`: creates a missing ledger. */
export async function migrateServer(
  server: PostgresServer,
  { create, backup = true }: { readonly create: boolean; readonly backup?: boolean },
): Promise<SchemaResult> {
  return onServer<SchemaResult>(server, async (database) => {
    if (!create && (await schemaOf(database)) === 0) return { ok: false, failure: { kind: "missing" } };
    return migrate(database, { forward: true, backup });
  });
}

/** State of a ledger on a server, read without a change. */
export interface ServerState {
  readonly schema: number;
  readonly known: number;
  /** True if the functions are those of this release. */
  readonly hasOwnFunctions: boolean;
  /** Version that the server reports. */
  readonly version: string;
  readonly isEncrypted: boolean;
  /** True if the role may create partitions. */
  readonly mayCreate: boolean;
  /** Null for an older schema, and for no ledger. */
  readonly ledger: {
    readonly timeZone: string | null;
    /** Excludes tasks that are known to run. */
    readonly pending: { readonly count: number; readonly oldestAt: number | null };
    /** Proxies that run on it. */
    readonly proxies: number;
  } | null;
}

export type ServerInspection = { readonly ok: true; readonly state: ServerState } | Failed;

export async function inspectServer(server: PostgresServer): Promise<ServerInspection> {
  return onServer<ServerInspection>(server, async (database) => {
    const known = knownSchema();
    const schema = await schemaOf(database);
    if (schema > known) return { ok: false, failure: { kind: "newer_schema", found: schema, known } };
    const facts = await database.row<{ version: string; encrypted: boolean | null; may: boolean | null }>(
      `select current_setting('server_version') as version, (select ssl from pg_stat_ssl where pid = pg_backend_pid()) as encrypted,
         has_schema_privilege(current_schema(), 'create') as may`,
    );
    const state = {
      schema,
      known,
      hasOwnFunctions: await hasOwnFunctions(database, schema),
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
       (select count(*) from owners where serves = 1 and ended_at is null and beat_at > clock_timestamp() - interval '5 seconds') as proxies
     from charges where state = 'pending'
       and not (kind = 'task' and exists (select 1 from tasks where tasks.charge = charges.id))`,
  );
  if (row === undefined) return null;
  const oldestAt = row.oldest === null ? null : Number(row.oldest);
  return { timeZone: row.zone, pending: { count: Number(row.count), oldestAt }, proxies: Number(row.proxies) };
}

/** Runs work on a database of this release's schema. Returns a failure for any other. */
export async function onLedger<R>(
  server: PostgresServer,
  work: (database: Database) => Promise<R>,
): Promise<R | Failed> {
  return onServer<R | Failed>(server, async (database) => {
    const found = await schemaOf(database);
    const known = knownSchema();
    if (found > known) return { ok: false, failure: { kind: "newer_schema", found, known } };
    if (found === 0) return { ok: false, failure: { kind: "missing" } };
    return found < known ? { ok: false, failure: olderSchema(found, known) } : await work(database);
  });
}

/** Runs work on a server. Returns a failure for faults of the server and the network. */
async function onServer<R>(server: PostgresServer, work: (database: Database) => Promise<R>): Promise<R | Failed> {
  try {
    await using database = connect(server, { applicationName: "farebox", max: 2, statementMs: null, lockMs: 60_000 });
    return await work(database);
  } catch (error) {
    const message = databaseFault(error);
    if (message === null) throw error;
    return { ok: false, failure: { kind: "unusable", message } };
  }
}
