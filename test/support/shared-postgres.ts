import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { parsePostgresUrl } from "../../src/core/postgres-url.ts";
import { migrateServer } from "../../src/store/postgres/upkeep.ts";
import { startPostgres, type Postgres } from "./postgres.ts";

/*
 * One PostgreSQL for all test files of a run. It is started by the first one that asks for a database, so that a run without such
 * tests does without.
 */

const variable = "FAREBOX_TEST_POSTGRES";
const template = "like_new";

/** Vitest calls it once before all test files, and what it answers once after them. */
export async function setup(): Promise<() => Promise<void>> {
  let started: Promise<Postgres> | null = null;
  let made = 0;
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const turn = last.then(work, work);
    last = turn;
    return turn;
  };
  const server = createServer((request, response) => {
    const answer = async () => {
      const postgres = await (started ??= startWithTemplate());
      if (request.method === "POST") return inTurn(() => postgres.create(`ledger_${++made}`, request.url === "/empty" ? undefined : template));
      // Nobody waits for it.
      inTurn(() => postgres.client.query(`drop database if exists ${request.url?.slice(1)} with (force)`)).catch(() => {});
      return "";
    };
    answer().then(
      (url) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  process.env[variable] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return async () => {
    server.close();
    server.closeAllConnections();
    await (await started)?.[Symbol.asyncDispose]();
  };
}

async function startWithTemplate(): Promise<Postgres> {
  const postgres = await startPostgres();
  const parsed = parsePostgresUrl(await postgres.create(template));
  const migrated = parsed.ok ? await migrateServer(parsed.server, { create: true }) : parsed;
  if (!migrated.ok) throw new Error(`the schema cannot be made: ${JSON.stringify(migrated)}`);
  return postgres;
}

/** A database of this test's own, dropped at its end. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string;
}

/** `with`: the ledger's schema, or nothing. */
export async function newDatabase(kind: "ledger" | "empty" = "ledger"): Promise<TestDatabase> {
  const place = process.env[variable];
  if (place === undefined) throw new Error("the tests run without their global setup");
  const ask = async (method: string, path: string) => {
    const response = await fetch(`${place}/${path}`, { method });
    const said = await response.text();
    if (!response.ok) throw new Error(`no database: ${said}`);
    return said;
  };
  const url = await ask("POST", kind);
  const name = new URL(url).pathname.slice(1);
  return { url, [Symbol.asyncDispose]: async () => void (await ask("DELETE", name)) };
}
