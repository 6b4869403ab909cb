/**
 * Makes a ledger of many charges, to measure what takes long on one (verify, repair, prune): the real writer, fed as fast
 * as it takes commands, over many days and keys.
 *
 *   node bench/ledger-rows.ts FILE [ROWS] [DAYS]
 */
import { parseArgs } from "node:util";
import { costOf } from "../src/core/cost.ts";
import { usd, type PicoUsd } from "../src/core/money.ts";
import { canonicalPrice } from "../src/core/price.ts";
import { noTokens } from "../src/core/usage.ts";
import { holdCommand, postCommand, voidCommand, type Command } from "../src/ledger/commands.ts";
import { connectToWrite, createPrivateFile } from "../src/ledger/sqlite/connection.ts";
import { migrate } from "../src/ledger/sqlite/migrate.ts";
import { registerOwner, Writer } from "../src/ledger/sqlite/writer.ts";
import { calendarOf } from "../src/platform/clock.ts";
import { contentId } from "../src/wire/content-id.ts";
import { priceOf } from "./prices.ts";

const dayMs = 86_400_000;
const end = Date.parse("2026-11-20T00:00:00Z");
const keys = 200;
const batchRows = 4000;

/** The same figures every time, without a pattern that a sum could hide behind. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const prices = Array.from({ length: 12 }, (_, index) => {
  const version = priceOf(index);
  const canonical = canonicalPrice(version);
  return { version, canonical, id: contentId(canonical) };
});

const { positionals } = parseArgs({ allowPositionals: true });
const [path, rowsText = "1000000", daysText = "400"] = positionals;
if (path === undefined) throw new Error("usage: node bench/ledger-rows.ts FILE [ROWS] [DAYS]");
if (createPrivateFile(path) === "exists") throw new Error(`${path} is there already`);
const rows = Number(rowsText);
const start = end - Number(daysText) * dayMs;

const db = connectToWrite(path);
migrate(db);
db.prepare("update meta set time_zone = 'UTC'").run();
db.pragma("synchronous = off");
const writer = new Writer(db, calendarOf("UTC"), registerOwner(db, start));
const pick = random(1);

function apply(commands: readonly Command[]): void {
  for (const outcome of writer.apply(commands).outcomes) {
    if (outcome.kind !== "done") throw new Error(outcome.message);
  }
}

function commandsOf(index: number): { readonly hold: Command; readonly end: Command } {
  const at = start + Math.floor((index / rows) * (end - start));
  const keyIndex = Math.min(pick(keys), pick(keys));
  const price = prices[(keyIndex + pick(3)) % prices.length] ?? prices[0];
  if (price === undefined) throw new Error("there are prices");
  const id = `${at.toString(16).padStart(12, "0")}-7${index.toString(16).padStart(12, "0")}`;
  const amount = usd("0.05");
  const hold = holdCommand(
    {
      id,
      kind: "request",
      at,
      caller: { key: `key-${keyIndex}`, team: `team-${keyIndex % 20}` },
      route: "chat",
      model: price.version.model,
      group: price.version.group,
      stream: pick(2) === 0,
      price,
      amount,
      bounded: true,
      tags: index % 4 === 0 ? { feature: `f${pick(5)}` } : {},
      retry: pick(50) === 0 ? 1 : 0,
    },
    true,
  );
  const ended = {
    at: at + 900,
    status: 200,
    servedModel: price.version.model,
    gatewayRequestId: `chatcmpl-${id}`,
    durationMs: 900.5,
    firstTokenMs: 210.25,
  };
  if (pick(50) === 0) return { hold, end: voidCommand(id, "gateway_429", { ...ended, status: 429 }) };
  const tokens = {
    ...noTokens,
    input: 50 + pick(6000),
    cached_input: pick(3) === 0 ? pick(2000) : 0,
    output: 1 + pick(900),
    reasoning: pick(4) === 0 ? pick(500) : 0,
  };
  const isAssumed = pick(100) === 0;
  const cost = costOf(price.version, tokens);
  const posting = {
    kind: "post",
    cost: isAssumed ? (0n as PicoUsd) : cost.charged,
    listCost: isAssumed ? (0n as PicoUsd) : cost.list,
    tokens: isAssumed ? noTokens : tokens,
    formula: isAssumed ? "assumed" : "tokens",
    source: isAssumed ? "assumed" : pick(20) === 0 ? "counted" : "reported",
    minimumApplied: !isAssumed && cost.minimumApplied,
    clamped: false,
    reason: isAssumed ? "crash" : null,
  } as const;
  return { hold, end: postCommand(id, posting, ended) };
}

for (const [scope, period] of [
  ["all", "total"],
  ["all", "1mo"],
  ["eachKey", "1d"],
] as const) {
  const limit = usd("9000000");
  apply([
    [
      "run",
      "budgets.setBudget",
      [
        {
          scope: scope === "all" ? { kind: "all" } : { kind: "eachKey", team: null },
          period,
          mode: "soft",
          limit,
          warnPercent: null,
        },
        start,
        "bench",
      ],
    ],
  ]);
}
const began = performance.now();
for (let index = 0; index < rows; index += batchRows) {
  const batch = Array.from({ length: Math.min(batchRows, rows - index) }, (_, offset) => commandsOf(index + offset));
  apply(batch.map(({ hold }) => hold));
  apply(batch.map((each) => each.end));
  if ((index / batchRows) % 100 === 0)
    process.stderr.write(`\r${index} of ${rows}, ${Math.round((performance.now() - began) / 1000)} s`);
}
process.stderr.write(`\r${rows} charges in ${Math.round((performance.now() - began) / 1000)} s\n`);
db.pragma("wal_checkpoint(truncate)");
db.close();
