/**
 * Writes the ledger of a large company, to measure the dashboard. The ledger has keys of people and services in teams, all
 * kinds of budgets, refusals, and 90 days of charges. A fifth of the charges come from 1% of the keys.
 *
 *   node bench/dashboard-ledger.ts FILE [CHARGES] [KEYS] [TEAMS] [REFUSALS]
 */
import { createHash } from "node:crypto";
import { parseArgs } from "node:util";
import type { Budget } from "../src/core/budget.ts";
import { type Scope, eachKeyScope, everyRequest, keyScope, teamScope } from "../src/core/scope.ts";
import { noRateLimits } from "../src/core/rate-limits.ts";
import { usd } from "../src/core/money.ts";
import type { Key } from "../src/core/keys.ts";
import type { RefusalRow } from "../src/ports/refusals.ts";
import { newLedger, random, writeCharges, type NewLedger, type Pick } from "./past-charges.ts";

const dayMs = 86_400_000;
/** Instant at which the dashboard is measured: the middle of a working day, late in a month. */
export const dashboardNow = Date.parse("2026-11-27T14:07:00Z");

const firstNames = ["ana", "ben", "chloe", "david", "elena", "felix", "grace", "hugo", "ines", "james", "kim", "laura"];
const products = [
  "search",
  "billing",
  "support",
  "catalog",
  "payments",
  "mobile",
  "growth",
  "data",
  "risk",
  "platform",
];

interface DashboardLedger {
  readonly charges: number;
  readonly keys: number;
  readonly teams: number;
  /** Number of rows of refusals. */
  readonly refusals: number;
}

function writeDashboardLedger(path: string, { charges, keys, teams, refusals }: DashboardLedger): void {
  const start = dashboardNow - 90 * dayMs;
  const pick = random(22);
  const ledger = newLedger(path, start);
  const all = Array.from({ length: keys }, (_, index) => keyOf(index, teams, start));
  for (const key of all) ledger.apply([["run", "keys.create", [key, "bench"]]]);
  // Only this budget has past windows. The others are set afterwards, because each budget slows down the writing of charges.
  setBudget(ledger, eachKeyScope(), "1d", "20", start);
  writeCharges(ledger, {
    rows: charges,
    start,
    end: dashboardNow,
    pick,
    // The cube makes 1% of the keys send a fifth of all requests.
    sender: () => {
      const index = Math.floor(keys * (pick(1_000_000) / 1_000_000) ** 3);
      const { id = "", team = null } = all[index] ?? {};
      return { caller: { key: id, team }, firstModel: index };
    },
  });
  setOtherBudgets(ledger, all, teams);
  writeRefusals(ledger, all, pick, refusals);
  const revoke = all.filter((_, index) => index % 40 === 39);
  for (const { id } of revoke) ledger.apply([["run", "keys.revoke", [id, dashboardNow - dayMs, "bench"]]]);
  ledger.db.pragma("wal_checkpoint(truncate)");
  ledger.db.close();
}

function keyOf(index: number, teams: number, at: number): Key {
  const name =
    index % 5 === 0 ? `${products[(index / 5) % products.length]}-service` : firstNames[index % firstNames.length];
  return {
    id: `bench${index}`,
    name: `${name}-${index}`,
    team: index % 50 === 49 ? null : teamName(index % teams),
    digest: createHash("sha256").update(String(index)).digest("hex"),
    models: null,
    limits: noRateLimits,
    outputCap: null,
    hostedTools: null,
    labels: {},
    tags: {},
    user: null,
    requires: [],
    createdAt: at + index,
    expiresAt: null,
    revokedAt: null,
    suspendedAt: null,
    rotatedAt: null,
    previous: null,
  };
}

function teamName(index: number): string {
  return `${products[index % products.length]}-${index}`;
}

function setBudget(
  ledger: NewLedger,
  scope: Scope,
  period: Budget["period"],
  limit: string,
  at: number,
  mode: Budget["mode"] = "hard",
): void {
  const budget = { scope, period, mode, limit: usd(limit), warnPercent: 80 };
  ledger.apply([["run", "budgets.setBudget", [budget, at, "bench"]]]);
}

/** Sets budgets for all requests, each key, each team, the keys of some teams, and every tenth key. */
function setOtherBudgets(ledger: NewLedger, keys: readonly Key[], teams: number): void {
  const at = dashboardNow;
  setBudget(ledger, everyRequest, "1mo", "100000", at, "soft");
  setBudget(ledger, eachKeyScope(), "1mo", "300", at);
  for (let index = 0; index < teams; index++) {
    const team = teamName(index);
    setBudget(ledger, teamScope(team), "1mo", "900", at, index % 3 === 0 ? "soft" : "hard");
    if (index % 4 === 0) setBudget(ledger, eachKeyScope(team), "1w", "60", at);
  }
  for (const [index, { id }] of keys.entries()) if (index % 10 === 0) setBudget(ledger, keyScope(id), "1mo", "250", at);
}

/** Writes refusals of the last 30 days. Three quarters of them are from the last 12 hours. */
function writeRefusals(ledger: NewLedger, keys: readonly Key[], pick: Pick, count: number): void {
  const rows = Array.from({ length: count }, (_, index): RefusalRow => {
    const at = dashboardNow - pick(index % 4 === 0 ? 30 * dayMs : dayMs / 2);
    const key = keys[Math.floor(keys.length * (pick(1000) / 1000) ** 3)];
    return {
      minute: at - (at % 60_000),
      key: key?.id ?? "",
      team: key?.team ?? null,
      route: "chat",
      model: `model-${pick(12)}`,
      code: "budget_exceeded",
      scope: "each-key",
      period: "1d",
      subject: key?.id ?? null,
      count: 1 + pick(9),
      firstAt: at,
      lastAt: at,
      needed: usd("0.05"),
    };
  });
  for (let from = 0; from < rows.length; from += 1000)
    ledger.apply([["run", "refusals.add", [rows.slice(from, from + 1000)]]]);
}

if (import.meta.main) {
  const { positionals } = parseArgs({ allowPositionals: true });
  const [path, charges = "1000000", keys = "10000", teams = "200", refusals = "20000"] = positionals;
  if (path === undefined)
    throw new Error("usage: node bench/dashboard-ledger.ts FILE [CHARGES] [KEYS] [TEAMS] [REFUSALS]");
  writeDashboardLedger(path, {
    charges: Number(charges),
    keys: Number(keys),
    teams: Number(teams),
    refusals: Number(refusals),
  });
}
