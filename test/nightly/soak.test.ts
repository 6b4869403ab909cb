import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { nodeFlags } from "../support/node-flags.ts";
import type { Resources } from "../system/soak/memory.ts";
import { answeredKinds } from "../system/soak/soak.ts";

const soak = fileURLToPath(new URL("../system/soak/run.ts", import.meta.url));
const run = (...args: string[]) => promisify(execFile)(process.execPath, [...nodeFlags, soak, ...args]);

interface Figures {
  readonly sent: number;
  readonly answered: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
  readonly failed: Readonly<Record<string, number>>;
  readonly quarters: readonly Resources[];
  readonly sums: Readonly<Record<string, { readonly ledgerUsd: string; readonly gatewayUsd: string }>>;
  readonly kills: number;
}

/** `npm run soak` runs longer with many more clients. */
const few = ["--minutes", "0.3", "--clients", "8", "--streams", "10"];

it.each([
  { ledger: "SQLite", more: [], kills: 0 },
  { ledger: "PostgreSQL, killed in each quarter", more: ["--postgres", "--kill-every", "0.03"], kills: 4 },
])("npm run soak accounts for every request on $ledger", { timeout: 300_000 }, async ({ more, kills }) => {
  const { stdout } = await run(...few, ...more);
  expect(stdout).toMatch(/\nevery request is accounted for\n$/);
  const figures = JSON.parse(stdout.slice(stdout.indexOf("\n{"), stdout.lastIndexOf("\n}") + 2)) as Figures;
  const ends = [figures.answered, figures.refused, figures.failed].flatMap((counts) => Object.values(counts));
  expect(ends.reduce((sum, count) => sum + count, 0)).toBe(figures.sent);
  // Next to kills, the database may be away too often for a session to complete.
  const kinds = [...answeredKinds, ...(kills === 0 ? ["farebox run"] : [])];
  expect(kinds.filter((kind) => figures.answered[kind] === undefined)).toEqual([]);
  expect(figures.sums["reported"]?.ledgerUsd).toBe(figures.sums["reported"]?.gatewayUsd);
  expect(figures.quarters).toHaveLength(4);
  expect(figures.kills).toBeGreaterThanOrEqual(kills);
  if (kills > 0) expect(figures.failed["the database was away"]).toBeGreaterThan(0);
});
