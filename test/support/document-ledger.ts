import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createAdmin } from "../../src/admin/admin-changes.ts";
import { setBudget } from "../../src/admin/budget-changes.ts";
import { createKey } from "../../src/admin/key-changes.ts";
import { createTeam } from "../../src/admin/team-changes.ts";
import { usd } from "../../src/core/money.ts";
import { keyScope } from "../../src/core/scope.ts";
import { openSqlite } from "../../src/ledger/sqlite/open.ts";
import { calendarOf, systemClock } from "../../src/platform/clock.ts";
import { spend } from "./cli-traffic.ts";
import { temporaryFolder } from "./farebox-process.ts";
import { writeEmptyLedger } from "./new-ledger.ts";

/** Ledger that a page takes for granted. */
export interface DocumentLedger {
  readonly file: Buffer;
  readonly key: string;
  /** Key that a budget refuses, and that can therefore ask for a raise. */
  readonly refusedKey: string;
}

/** Time zone in which it is about noon, so that no day or month ends during a test. "Etc/GMT+5" is behind GMT. */
export const timeZone = zoneAtNoon(new Date().getUTCHours());

function zoneAtNoon(hour: number): string {
  const behind = hour - 12;
  return `Etc/GMT${behind < 0 ? "" : "+"}${behind}`;
}

/** Id of a charge, for a page that does not name one. */
export const chargeId = "019a0e2c-7f5e-7cc1-a2d4-90b1c1d2e3f4";

const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;
const raiseId = /\braise_[0-9a-f]{16}\b/g;

interface Rows {
  /** Names of a key, a team and an admin. */
  readonly key: string;
  readonly team: string;
  readonly admin: string;
  readonly budgets: readonly (readonly [scope: string, period: "1mo" | "total"])[];
  /** Ids. */
  readonly charges: readonly string[];
  readonly raises: readonly string[];
}

/** Returns the rows that exist before these commands run. The names that the commands create are still free. */
function rowsFor(commands: string): Rows {
  const names = commands.matchAll(/(?:\bcreate |"name":"|\binit .*--key )(\w+)/g);
  const created = new Set([...names].map(([, name]) => name));
  const free = (name: string, other: string) => (created.has(name) ? other : name);
  const [key, team] = [free("alice", "bob"), free("research", "sales")];
  const raises = [...new Set(commands.match(raiseId))];
  const ofKey = `key:${key}`;
  const budgets = [
    [ofKey, "1mo"],
    [ofKey, "total"],
    [`team:${team}`, "1mo"],
    ["each-key", "1mo"],
  ] as const;
  return {
    key,
    team,
    admin: free("carol", "dave"),
    budgets: budgets.filter(([scope]) => commands.includes(scope) || (raises.length > 0 && scope === ofKey)),
    charges: [...new Set(commands.match(uuid) ?? [chargeId])],
    raises,
  };
}

const ledgers = new Map<string, Promise<DocumentLedger>>();

/** Returns the ledger for these commands. Many pages need the same one, which is made once. */
export function ledgerFor(commands: string): Promise<DocumentLedger> {
  const rows = rowsFor(commands);
  const name = JSON.stringify(rows);
  const ledger = ledgers.get(name) ?? createLedger(rows);
  ledgers.set(name, ledger);
  return ledger;
}

async function createLedger({ key, team, admin, budgets, charges, raises }: Rows): Promise<DocumentLedger> {
  await using folder = await temporaryFolder();
  const path = join(folder.path, "farebox.db");
  writeEmptyLedger(path);
  const clock = systemClock();
  const opening = await openSqlite({ path, calendar: calendarOf(timeZone), clock, access: "serve", threads: false });
  if (!opening.ok) throw new Error(opening.failure.kind);
  const { store } = opening;
  const tools = { ...store, clock, by: "test" };
  for (const name of [team, "support"]) expectOk(await createTeam(tools, { name }));
  const owner = expectOk(await createKey(tools, { name: key }));
  const refused = expectOk(await createKey(tools, { name: "kim" }));
  expectOk(await createAdmin(tools, { name: admin, role: "editor" }));

  const at = clock.now();
  const charge = { at, input: 100_000, output: 100_000, model: "gpt-4o" };
  for (const id of charges) await spend(store.ledger, { id, key: owner.key.id, ...charge });
  await spend(store.ledger, { id: "of-kim", key: refused.key.id, ...charge });
  for (const [scope, period] of budgets)
    expectOk(await setBudget(tools, { scope, period, limit: "100", mode: "soft" }));
  expectOk(await setBudget(tools, { scope: "key:kim", period: "total", limit: "0.01" }));
  for (const [index, id] of raises.entries()) {
    // A key has at most one open request for a budget.
    const budget = { scope: keyScope(owner.key.id), period: index === 0 ? "1mo" : "total" } as const;
    const request = { id, budget, subject: "", key: owner.key.id, amount: usd("5"), why: "demo", at, lapsesAt: null };
    expectOk(await store.raiseRequests.create(request));
  }
  await store[Symbol.asyncDispose]();
  return { file: readFileSync(path), key: owner.text, refusedKey: refused.text };
}

function expectOk<Result extends { readonly ok: boolean }>(result: Result): Extract<Result, { readonly ok: true }> {
  if (!result.ok) throw new Error(JSON.stringify(result));
  return result as Extract<Result, { readonly ok: true }>;
}
