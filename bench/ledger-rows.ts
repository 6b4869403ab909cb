/**
 * Writes a ledger with many charges over many days and keys, to measure slow operations such as verify, repair and prune.
 *
 *   node bench/ledger-rows.ts FILE [ROWS] [DAYS]
 */
import { eachKeyScope, everyRequest } from "../src/core/scope.ts";
import { parseArgs } from "node:util";
import { usd } from "../src/core/money.ts";
import { newLedger, random, writeCharges } from "./past-charges.ts";

const dayMs = 86_400_000;
const end = Date.parse("2026-11-20T00:00:00Z");
const keys = 200;

const { positionals } = parseArgs({ allowPositionals: true });
const [path, rowsText = "1000000", daysText = "400"] = positionals;
if (path === undefined) throw new Error("usage: node bench/ledger-rows.ts FILE [ROWS] [DAYS]");
const start = end - Number(daysText) * dayMs;
const ledger = newLedger(path, start);

for (const [scope, period] of [
  ["all", "total"],
  ["all", "1mo"],
  ["eachKey", "1d"],
] as const) {
  ledger.apply([
    [
      "run",
      "budgets.setBudget",
      [
        {
          scope: scope === "all" ? everyRequest : eachKeyScope(),
          period,
          mode: "soft",
          limit: usd("9000000"),
          warnPercent: null,
        },
        start,
        "bench",
      ],
    ],
  ]);
}
const pick = random(1);
writeCharges(ledger, {
  rows: Number(rowsText),
  start,
  end,
  pick,
  sender: () => {
    const index = Math.min(pick(keys), pick(keys));
    return { caller: { key: `key-${index}`, team: `team-${index % 20}` }, firstModel: index };
  },
});
ledger.db.pragma("wal_checkpoint(truncate)");
ledger.db.close();
