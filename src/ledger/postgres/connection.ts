import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { Client, DatabaseError, Pool, types, type ClientBase, type ClientConfig, type PoolClient } from "pg";
import type { PostgresServer } from "../../core/postgres-url.ts";
import { LedgerUnavailable } from "../../ports/ledger.ts";

/** SQL text with parameters $1, $2, …. Each connection prepares a named statement once. */
export type Sql = string | { readonly name: string; readonly text: string };

/** Runs statements on one connection, or on any free connection of a pool. Returns 64-bit integers as bigints. */
export interface Statements {
  rows<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R[]>;
  /** Returns the first row; undefined if there is none. */
  row<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R | undefined>;
  /** Returns the number of rows written. */
  run(sql: Sql, values?: readonly unknown[]): Promise<number>;
}

/** Connection for exclusive use. Disposal rolls back an open transaction and releases the connection. */
export interface Session extends Statements, AsyncDisposable {
  readonly client: ClientBase;
}

/** Error for a connection that was lost during a commit or a batch. The changes may or may not be committed. */
export class OutcomeUnknown extends Error {}

/** Error for a database that contains an incomplete copy of a ledger. */
export class CopyUnfinished extends Error {
  constructor() {
    super("it contains an unfinished copy of a ledger; run the same farebox db copy again to complete it");
  }
}

export interface ConnectOptions {
  /** Name that the server shows for the connections. */
  readonly applicationName: string;
  /** Largest number of connections. */
  readonly max: number;
  /**
   * Longest duration of a statement, in milliseconds; null for no timeout. After this time, the server cancels the
   * statement. If the server does not, the driver stops waiting a second later.
   */
  readonly statementMs: number | null;
  /** Longest wait of a statement for a lock, in milliseconds. */
  readonly lockMs?: number;
  /** True if the server must refuse writes. */
  readonly readOnly?: boolean;
}

/** Longest time for a server to accept a connection, in milliseconds. */
const connectMs = 5_000;
/** Time after which the server ends an idle transaction, in milliseconds. */
const idleInTransactionMs = 10_000;
/** Time from the server's statement timeout until the driver stops waiting, in milliseconds. */
const graceMs = 1_000;
/** Time until the pool closes an idle connection, in milliseconds. */
const idleMs = 60_000;
/** Largest number of attempts for a transaction that conflicts with other transactions. */
const attemptsMax = 5;

/** Database with a pool of connections that are opened on demand. */
export class Database implements Statements, AsyncDisposable {
  readonly #pool: Pool;
  #closed: Promise<void> | null = null;

  constructor(pool: Pool) {
    this.#pool = pool;
    // Without a listener, the failure of an idle connection would end the process. The pool replaces the connection.
    pool.on("error", () => {});
    // The same applies to a connection that the pool has just handed out. The next statement on it fails.
    pool.on("connect", (client) => client.on("error", () => {}));
  }

  rows<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R[]> {
    return this.#withSession((db) => db.rows<R>(sql, values));
  }

  row<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R | undefined> {
    return this.#withSession((db) => db.row<R>(sql, values));
  }

  run(sql: Sql, values?: readonly unknown[]): Promise<number> {
    return this.#withSession((db) => db.run(sql, values));
  }

  /**
   * Runs `work` in one transaction. Rolls back if `work` throws. Repeats the transaction if it conflicts with other
   * transactions. `snapshot`: the transaction only reads, from one snapshot. Throws `OutcomeUnknown` if the connection
   * is lost during the commit of a write.
   */
  async transaction<T>(work: (db: Statements) => Promise<T>, mode: "write" | "snapshot" = "write"): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      try {
        return await this.#withSession((session) => inTransaction(session, mode, work));
      } catch (error) {
        if (attempts >= attemptsMax || !isConflict(error)) throw error;
      }
    }
  }

  /** Takes a connection from the pool. The caller must dispose of it. */
  async session(): Promise<Session> {
    const client = await this.#pool.connect();
    return sessionOver(client);
  }

  /**
   * Returns a database for queries on the same pool. It throws `LedgerUnavailable` if the server cannot answer, so
   * callers can distinguish this from a bug.
   */
  forQueries(): Database {
    return new QueryDatabase(this.#pool);
  }

  /** Closes the pool after running statements have ended. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.#pool.end();
    return this.#closed;
  }

  async #withSession<T>(work: (session: Session) => Promise<T>): Promise<T> {
    await using session = await this.session();
    return await work(session);
  }
}

class QueryDatabase extends Database {
  override rows<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R[]> {
    return orUnavailable(super.rows<R>(sql, values));
  }

  override row<R extends object>(sql: Sql, values?: readonly unknown[]): Promise<R | undefined> {
    return orUnavailable(super.row<R>(sql, values));
  }

  override transaction<T>(work: (db: Statements) => Promise<T>, mode?: "write" | "snapshot"): Promise<T> {
    return orUnavailable(super.transaction(work, mode));
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

/**
 * Creates a database. Its first statement opens a connection. Throws if a file that the address names cannot be read.
 */
export function connect(server: PostgresServer, options: ConnectOptions): Database {
  const pool = { ...clientConfig(server, options), max: options.max, idleTimeoutMillis: idleMs };
  if (options.statementMs !== null) return new Database(new Pool(pool));
  // Without a statement timeout, the wait for a free connection may be long. The pool has a single timeout for this wait
  // and for connecting.
  return new Database(new Pool({ ...pool, connectionTimeoutMillis: 0, Client: ClientWithTimeout }));
}

/** Client with a timeout for connecting, for a pool without a timeout. */
class ClientWithTimeout extends Client {
  constructor(config?: string | ClientConfig) {
    const given = typeof config === "object" ? config : {};
    // Copies the password by name: the pool makes it non-enumerable, so a spread omits it.
    super({ ...given, password: given.password, connectionTimeoutMillis: connectMs });
  }
}

/** Returns the driver's options for connections to the server. */
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
    // The options of the address come last, because later options have precedence.
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
  mode: "write" | "snapshot",
  work: (db: Statements) => Promise<T>,
): Promise<T> {
  await session.run(mode === "write" ? "begin" : "begin isolation level repeatable read read only");
  const result = await work(session);
  await commit(session, mode);
  return result;
}

async function commit({ client }: Session, mode: "write" | "snapshot"): Promise<void> {
  try {
    const { command } = await client.query("commit");
    // After a failed statement, the server rolls back instead of committing, even if `work` caught the error.
    if (command !== "COMMIT")
      throw new Error("the transaction was rolled back, because one of its statements failed and the error was caught");
  } catch (error) {
    if (mode === "snapshot" || !isConnectionLost(error)) throw error;
    throw new OutcomeUnknown("the connection to the database was lost during a commit", { cause: error });
  }
}

/** Creates a session on one connection of the pool. */
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
      const isIdle = !isLost && (client.getTransactionStatus() === "I" || (await rollback(client)));
      client.off("error", onError);
      // A connection that may still be in a transaction must not be reused.
      client.release(!isIdle);
    },
  };
}

/** Rolls back a transaction. Returns false if the rollback failed. */
async function rollback(client: PoolClient): Promise<boolean> {
  try {
    await client.query("rollback");
    return true;
  } catch {
    return false;
  }
}

/** Returns true if a transaction conflicted with others and can be repeated. */
function isConflict(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === "40001" || error.code === "40P01");
}

/** Returns true if a statement's wait for a lock timed out. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "55P03";
}

/** Returns true if the connection was lost or timed out, so that the outcome of the statement is unknown. */
export function isConnectionLost(error: unknown): boolean {
  // With these severities and codes, the server ends the connection.
  if (error instanceof DatabaseError)
    return error.severity === "FATAL" || error.severity === "PANIC" || error.code?.startsWith("08") === true;
  return isDriverError(error);
}

/**
 * Returns true for errors of the network and of the driver. Network errors have a code from Node. The driver's errors
 * have no code, so this function recognizes them by their messages.
 */
function isDriverError(error: unknown): error is Error {
  if (!(error instanceof Error) || error instanceof DatabaseError) return false;
  if ("code" in error && typeof error.code === "string") return true;
  return /^(Connection terminated|Query read timeout|timeout expired|timeout exceeded|Client (has encountered|was closed)|The server does not support SSL|There was an error establishing an SSL|The client is closed|Cannot use a pool after)/i.test(
    error.message,
  );
}

/** Prefixes of the SQLSTATE codes that report a condition of the server instead of a bug in a statement. */
const serverConditions = ["08", "25006", "28", "3D", "40", "42501", "53", "55P03", "57", "58", "FB", "XX"];

/**
 * Returns the reason why the database cannot be reached or written, without the password; null if the error is a bug.
 */
export function databaseFault(error: unknown): string | null {
  if (error instanceof OutcomeUnknown || error instanceof CopyUnfinished || error instanceof LedgerUnavailable)
    return error.message;
  if (error instanceof DatabaseError) {
    const code = error.code ?? "";
    return serverConditions.some((condition) => code.startsWith(condition)) ? `${error.message} (${code})` : null;
  }
  if (error instanceof AggregateError && error.errors.length > 0) return databaseFault(error.errors[0]);
  return isDriverError(error) ? connectionProblem(error) : null;
}

const problems: Readonly<Record<string, string>> = {
  ECONNREFUSED: "no server accepts connections at this host and port",
  ENOTFOUND: "the host does not exist",
  EAI_AGAIN: "the DNS lookup of the host failed temporarily",
  ENOENT: "the server's socket does not exist",
  ETIMEDOUT: "the server does not answer",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network of the host cannot be reached",
  ECONNRESET: "the connection was closed unexpectedly",
  EPIPE: "the connection was closed unexpectedly",
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another host",
  CERT_HAS_EXPIRED: "the server's certificate has expired",
};
const untrustedCertificate = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
]);

function connectionProblem(error: Error): string {
  const code = "code" in error ? String(error.code) : "";
  // The address names a certificate or key file.
  if ("path" in error && "syscall" in error && error.syscall === "open")
    return `${String(error.path)} cannot be read (${code})`;
  if (untrustedCertificate.has(code))
    return `the server's certificate is not signed by a trusted authority; add sslrootcert=FILE to the address, where FILE contains the authority's certificate (${code})`;
  if (/does not support SSL/.test(error.message))
    return "the server does not support TLS, which protects the password and all data; turn TLS on at the server, or add sslmode=disable to the address to connect without encryption";
  if (/timeout/i.test(error.message)) return "the server does not answer in time";
  const problem = problems[code];
  return problem === undefined ? error.message : `${problem} (${code})`;
}

/**
 * Returns a text that PostgreSQL can store. Replaces NUL and unpaired surrogates with the replacement character.
 * Clients and gateways may put such characters into names.
 */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\u{FFFD}");
}

/** Matches escapes in JSON that PostgreSQL refuses. */
const refusedEscape = /\\u(0000|d[89a-f])/;

/** Returns a value as JSON that PostgreSQL can store. */
export function storableJson(value: unknown): string {
  const text = JSON.stringify(value);
  return refusedEscape.test(text)
    ? JSON.stringify(value, (_name, part: unknown) => (typeof part === "string" ? storable(part) : part))
    : text;
}
