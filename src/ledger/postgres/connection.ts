import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { DatabaseError, Pool, types, type ClientBase, type ClientConfig, type PoolClient } from "pg";
import type { PostgresServer } from "../../core/postgres-url.ts";
import { LedgerUnavailable } from "../../ports/ledger.ts";
import { storable } from "./text.ts";

/** SQL text with $1 …. A named statement is prepared once on each connection. */
export type Sql = string | { readonly name: string; readonly text: string };

/** Runs statements on one connection, or on any free one of a pool. 64-bit integers are bigints. */
export interface Statements {
  rows<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R[]>;
  /** Returns the first row; undefined for none. */
  row<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R | undefined>;
  /** Returns the number of rows written. */
  run(sql: Sql, values?: readonly unknown[]): Promise<number>;
}

/** One connection for exclusive use. Disposal rolls back an open transaction. */
export interface Session extends Statements, AsyncDisposable {
  readonly client: ClientBase;
}

/** The connection was lost during a commit: the transaction may be committed or not. */
export class OutcomeUnknown extends Error {}

/** The database contains an incomplete copy of a ledger. */
export class CopyUnfinished extends Error {
  constructor() {
    super("a copy into it is unfinished; the same farebox db copy continues it");
  }
}

export interface ConnectOptions {
  /** Name of the connections, for people who list them on the server. */
  readonly applicationName: string;
  /** Most connections. */
  readonly max: number;
  /**
   * Longest run of a statement, in milliseconds. The server ends it, and this side does a moment later. Null for no
   * limit.
   */
  readonly statementMs: number | null;
  /** Longest wait of a statement for a lock, in milliseconds. */
  readonly lockMs?: number;
  /** True if the server must refuse writes. */
  readonly readOnly?: boolean;
}

/** Longest time for a server to accept a connection. Milliseconds. */
const connectMs = 5_000;
/** Time after which the server ends an idle transaction. Milliseconds. */
const idleInTransactionMs = 10_000;
/** Time after the server's limit when this side abandons a statement. Milliseconds. */
const graceMs = 1_000;
/** Time for which an idle connection is kept. Milliseconds. */
const idleMs = 60_000;
/** Most attempts of a transaction that cannot be serialized. */
const triesMax = 5;

/** A database with a pool of connections, opened on demand. */
export class Database implements Statements, AsyncDisposable {
  readonly #pool: Pool;
  #closed: Promise<void> | null = null;

  constructor(pool: Pool) {
    this.#pool = pool;
    // The next use replaces a connection that breaks while idle.
    pool.on("error", () => {});
  }

  rows<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R[]> {
    return this.#lent((db) => db.rows<R>(sql, values));
  }

  row<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R | undefined> {
    return this.#lent((db) => db.row<R>(sql, values));
  }

  run(sql: Sql, values?: readonly unknown[]): Promise<number> {
    return this.#lent((db) => db.run(sql, values));
  }

  /**
   * Does the work in one transaction. Rolls back if the work throws, and repeats it if the database could not serialize
   * it. `snapshot`: reads only, all from one snapshot. Throws `OutcomeUnknown` if the connection was lost during the
   * commit.
   */
  async transaction<T>(work: (db: Statements) => Promise<T>, how: "write" | "snapshot" = "write"): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#lent((session) => inTransaction(session, how, work));
      } catch (error) {
        if (tries >= triesMax || !isSerialization(error)) throw error;
      }
    }
  }

  /** Takes one connection of the pool. The caller disposes of it. */
  async session(): Promise<Session> {
    const client = await this.#pool.connect();
    return sessionOver(client);
  }

  /**
   * Returns the same pool for queries: errors of a server that does not answer become `LedgerUnavailable`, so that
   * callers can tell them from a bug.
   */
  forQueries(): Database {
    return new ReadDatabase(this.#pool);
  }

  /** Waits for running statements. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.#pool.end();
    return this.#closed;
  }

  async #lent<T>(work: (session: Session) => Promise<T>): Promise<T> {
    await using session = await this.session();
    return await work(session);
  }
}

class ReadDatabase extends Database {
  override rows<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R[]> {
    return orUnavailable(super.rows<R>(sql, values));
  }

  override row<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R | undefined> {
    return orUnavailable(super.row<R>(sql, values));
  }

  override transaction<T>(work: (db: Statements) => Promise<T>, how?: "write" | "snapshot"): Promise<T> {
    return orUnavailable(super.transaction(work, how));
  }
}

async function orUnavailable<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const fault = databaseFault(error);
    throw fault === null ? error : new LedgerUnavailable(fault, { cause: error });
  }
}

/** Creates a database. It connects with the first statement. Throws if a file that the address names cannot be read. */
export function connect(server: PostgresServer, options: ConnectOptions): Database {
  return new Database(new Pool({ ...clientConfig(server, options), max: options.max, idleTimeoutMillis: idleMs }));
}

/** Returns the driver's options to reach the server. */
export function clientConfig(
  server: PostgresServer,
  { applicationName, statementMs, lockMs, readOnly }: Omit<ConnectOptions, "max">,
): ClientConfig {
  const settings = [
    `idle_in_transaction_session_timeout=${idleInTransactionMs}`,
    ...(statementMs === null ? [] : [`statement_timeout=${statementMs}`]),
    ...(readOnly === true ? ["default_transaction_read_only=on"] : []),
    ...(lockMs === undefined ? [] : [`lock_timeout=${lockMs}`]),
  ];
  return {
    host: server.host,
    port: server.port,
    user: server.user,
    ...(server.password !== null && { password: server.password }),
    database: server.database,
    ssl: tlsOf(server),
    // Options of the address come last, so they win.
    options: [...settings.map((setting) => `-c ${setting}`), ...(server.options === null ? [] : [server.options])].join(
      " ",
    ),
    application_name: applicationName,
    connectionTimeoutMillis: connectMs,
    ...(statementMs !== null && { query_timeout: statementMs + graceMs }),
    keepAlive: true,
    types: { getTypeParser: parserOf },
  };
}

function tlsOf({ tls, authorityFile, certificateFile, keyFile }: PostgresServer): ConnectionOptions | false {
  if (tls === "none") return false;
  const file = (path: string | null) => (path === null ? undefined : readFileSync(path, "utf8"));
  return {
    rejectUnauthorized: tls !== "unverified",
    ...(tls === "authority" && { checkServerIdentity: () => undefined }),
    ...(authorityFile !== null && { ca: file(authorityFile) }),
    ...(certificateFile !== null && { cert: file(certificateFile) }),
    ...(keyFile !== null && { key: file(keyFile) }),
  };
}

const int8 = types.builtins.INT8;
/** PostgreSQL's type number of arrays of 64-bit integers. */
const int8Array = 1016;

function parserOf(type: number, format?: "text" | "binary"): (text: string) => unknown {
  if (type === int8) return BigInt;
  if (type === int8Array) return (text) => (text === "{}" ? [] : text.slice(1, -1).split(",").map(BigInt));
  return format === "binary" ? types.getTypeParser(type, "binary") : types.getTypeParser(type, "text");
}

async function inTransaction<T>(
  session: Session,
  how: "write" | "snapshot",
  work: (db: Statements) => Promise<T>,
): Promise<T> {
  await session.run(how === "write" ? "begin" : "begin isolation level repeatable read read only");
  const result = await work(session);
  await commit(session, how);
  return result;
}

async function commit({ client }: Session, how: "write" | "snapshot"): Promise<void> {
  try {
    const { command } = await client.query("commit");
    // The server rolled back, even if the work caught the error.
    if (command !== "COMMIT") throw new Error("a transaction with a failed statement was committed");
  } catch (error) {
    if (how === "snapshot" || !isConnectionLost(error)) throw error;
    throw new OutcomeUnknown("the connection to the database was lost", { cause: error });
  }
}

/** Creates a session over one connection. */
function sessionOver(client: PoolClient): Session {
  let isLost = false;
  const query = async <R extends object>(sql: Sql, values: readonly unknown[] = []) => {
    try {
      const given = values.map((value) => (typeof value === "string" ? storable(value) : value));
      return await client.query<R>(typeof sql === "string" ? { text: sql, values: given } : { ...sql, values: given });
    } catch (error) {
      isLost ||= isConnectionLost(error);
      throw error;
    }
  };
  const onError = () => {
    isLost = true;
  };
  client.on("error", onError);
  return {
    client,
    rows: async <R extends object>(sql: Sql, values?: readonly unknown[]) => (await query<R>(sql, values)).rows,
    row: async <R extends object>(sql: Sql, values?: readonly unknown[]) => (await query<R>(sql, values)).rows[0],
    run: async (sql, values) => (await query(sql, values)).rowCount ?? 0,
    async [Symbol.asyncDispose]() {
      const isIdle = !isLost && (client.getTransactionStatus() === "I" || (await rolledBack(client)));
      client.off("error", onError);
      // A connection inside a transaction must not be reused.
      client.release(!isIdle);
    },
  };
}

async function rolledBack(client: PoolClient): Promise<boolean> {
  try {
    await client.query("rollback");
    return true;
  } catch {
    return false;
  }
}

/** Returns true if a transaction conflicted with others and may be repeated. */
function isSerialization(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === "40001" || error.code === "40P01");
}

/** Returns true if a statement's wait for a lock timed out. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "55P03";
}

/** Returns true if the connection was lost or timed out, so that the outcome of the statement is unknown. */
export function isConnectionLost(error: unknown): boolean {
  // Codes with which the server ends a connection.
  if (error instanceof DatabaseError)
    return error.severity === "FATAL" || error.severity === "PANIC" || error.code?.startsWith("08") === true;
  return isOfDriver(error);
}

/**
 * Returns true for errors of the driver itself: they have no code of the server, and none of Node as those of the
 * network do.
 */
function isOfDriver(error: unknown): error is Error {
  if (!(error instanceof Error) || error instanceof DatabaseError) return false;
  if ("code" in error && typeof error.code === "string") return true;
  return /^(Connection terminated|Query read timeout|timeout expired|timeout exceeded|Client (has encountered|was closed)|The server does not support SSL|There was an error establishing an SSL|The client is closed|Cannot use a pool after)/i.test(
    error.message,
  );
}

/** Classes of SQLSTATE for conditions of the server rather than faults of a statement. */
const conditions = ["08", "25006", "28", "3D", "40", "42501", "53", "55P03", "57", "58", "FB", "XX"];

/** Returns why the database could not be reached or written, in one sentence without its password; null for a bug. */
export function databaseFault(error: unknown): string | null {
  if (error instanceof OutcomeUnknown || error instanceof CopyUnfinished) return error.message;
  if (error instanceof DatabaseError) {
    const code = error.code ?? "";
    return conditions.some((condition) => code.startsWith(condition)) ? `${error.message} (${code})` : null;
  }
  if (error instanceof AggregateError && error.errors.length > 0) return databaseFault(error.errors[0]);
  return isOfDriver(error) ? whyNotReached(error) : null;
}

const unanswered: Readonly<Record<string, string>> = {
  ECONNREFUSED: "no server listens there",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "the name of its host cannot be looked up now",
  ENOENT: "there is no socket there",
  ETIMEDOUT: "the server does not answer",
  EHOSTUNREACH: "its host cannot be reached",
  ENETUNREACH: "its network cannot be reached",
  ECONNRESET: "the connection was cut",
  EPIPE: "the connection was cut",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another host",
  CERT_HAS_EXPIRED: "its certificate has expired",
};
const untrusted = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
]);

function whyNotReached(error: Error): string {
  const code = "code" in error ? String(error.code) : "";
  // A certificate file that the address names.
  if ("path" in error && "syscall" in error && error.syscall === "open")
    return `${String(error.path)} cannot be read (${code})`;
  if (untrusted.has(code))
    return `its certificate is not signed by a trusted authority; sslrootcert=FILE in the address names a file with the authority's certificate (${code})`;
  if (/does not support SSL/.test(error.message))
    return "the server offers no TLS, without which the password and all figures would be sent in the clear; sslmode=disable in the address permits that";
  if (/timeout/i.test(error.message)) return "the server does not answer in time";
  const why = unanswered[code];
  return why === undefined ? error.message : `${why} (${code})`;
}
