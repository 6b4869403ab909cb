import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { parsePostgresUrl } from "../../src/core/postgres-url.ts";
import { migrateServer } from "../../src/ledger/postgres/maintenance.ts";
import { startPostgres, type Postgres } from "./postgres.ts";

/*
 * Process of the PostgreSQL that all test files of a run share. Prints the address for database requests, starts the
 * server with the first request, and ends with its input, however the run ended.
 */

const template = "like_new";

const running: { postgres: Promise<Postgres> | null } = { postgres: null };
let made = 0;
let last: Promise<unknown> = Promise.resolve();

function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const turn = last.then(work, work);
  last = turn;
  return turn;
}

async function startWithTemplate(): Promise<Postgres> {
  const postgres = await startPostgres();
  const parsed = parsePostgresUrl(await postgres.create(template));
  const migrated = parsed.ok ? await migrateServer(parsed.server, { create: true }) : parsed;
  if (!migrated.ok) throw new Error(`the schema cannot be made: ${JSON.stringify(migrated)}`);
  return postgres;
}

/** Returns the template of a database; undefined for an empty one. */
function templateOf(path: string): string | undefined {
  if (path === "/empty") return undefined;
  return /^\/like\/(\w+)$/.exec(path)?.[1] ?? template;
}

const server = createServer((request, response) => {
  const answer = async () => {
    const postgres = await (running.postgres ??= startWithTemplate());
    if (request.method === "POST")
      return inTurn(() => postgres.create(`ledger_${++made}`, templateOf(request.url ?? "")));
    // No caller waits for it.
    inTurn(() => postgres.client.query(`drop database if exists ${request.url?.slice(1)} with (force)`)).catch(
      () => {},
    );
    return "";
  };
  answer().then(
    (url) => response.end(url),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
}).listen(0, "127.0.0.1");
await once(server, "listening");
process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);

process.stdin.resume();
await once(process.stdin, "close");
server.close();
server.closeAllConnections();
await (await running.postgres)?.[Symbol.asyncDispose]();
