import type { Caller } from "../src/core/scope.ts";
import { costOf } from "../src/core/cost.ts";
import { usd, type PicoUsd } from "../src/core/money.ts";
import { canonicalPrice } from "../src/core/price.ts";
import { noTokens } from "../src/core/usage.ts";
import { holdCommand, postCommand, voidCommand, type Command } from "../src/ledger/commands.ts";
import { connectToWrite, createPrivateFile, type Connection } from "../src/ledger/sqlite/connection.ts";
import { migrate } from "../src/ledger/sqlite/migrate.ts";
import { registerOwner, Writer } from "../src/ledger/sqlite/writer.ts";
import { calendarOf } from "../src/platform/clock.ts";
import { contentId } from "../src/wire/content-id.ts";
import { priceOf } from "./prices.ts";

/** Returns a random whole number from 0 to `below` − 1. */
export type Pick = (below: number) => number;

/** Creates a generator of random numbers that depend only on the seed. */
export function random(seed: number): Pick {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const batchRows = 4000;

const prices = Array.from({ length: 12 }, (_, index) => {
  const version = priceOf(index);
  const canonical = canonicalPrice(version);
  return { version, canonical, id: contentId(canonical) };
});

/** New SQLite ledger with the time zone UTC. */
export interface NewLedger {
  readonly db: Connection;
  readonly apply: (commands: readonly Command[]) => void;
}

/** Creates a ledger with fast writes that are not durable. Throws an error if the file exists. */
export function newLedger(path: string, start: number): NewLedger {
  if (createPrivateFile(path) === "exists") throw new Error(`${path} already exists`);
  const db = connectToWrite(path);
  migrate(db);
  db.prepare("update meta set time_zone = 'UTC'").run();
  db.pragma("synchronous = off");
  const writer = new Writer(db, calendarOf("UTC"), registerOwner(db, start));
  return {
    db,
    apply(commands) {
      for (const outcome of writer.apply(commands).outcomes) {
        if (outcome.kind !== "done") throw new Error(outcome.message);
      }
    },
  };
}

interface PastCharges {
  readonly rows: number;
  readonly start: number;
  readonly end: number;
  readonly pick: Pick;
  /** Returns the sender of a request, and the number of the first of its three models. */
  readonly sender: () => { readonly caller: Caller; readonly firstModel: number };
}

/** Writes charges that are spread evenly over a span. */
export function writeCharges(ledger: NewLedger, { rows, start, end, pick, sender }: PastCharges): void {
  const began = performance.now();
  for (let index = 0; index < rows; index += batchRows) {
    const batch = Array.from({ length: Math.min(batchRows, rows - index) }, (_, offset) => {
      const at = start + Math.floor(((index + offset) / rows) * (end - start));
      return commandsOf(index + offset, at, pick, sender());
    });
    ledger.apply(batch.map(({ hold }) => hold));
    ledger.apply(batch.map((each) => each.end));
    if ((index / batchRows) % 100 === 0)
      process.stderr.write(`\r${index} of ${rows}, ${Math.round((performance.now() - began) / 1000)} s`);
  }
  process.stderr.write(`\r${rows} charges in ${Math.round((performance.now() - began) / 1000)} s\n`);
}

export function commandsOf(
  index: number,
  at: number,
  pick: Pick,
  { caller, firstModel }: ReturnType<PastCharges["sender"]>,
): { readonly id: string; readonly hold: Command; readonly end: Command } {
  const price = prices[(firstModel + pick(3)) % prices.length] ?? prices[0];
  if (price === undefined) throw new Error("no prices");
  const id = `${at.toString(16).padStart(12, "0")}-7${index.toString(16).padStart(12, "0")}`;
  const amount = usd("0.05");
  const hold = holdCommand(
    {
      id,
      kind: "request",
      at,
      caller,
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
  if (pick(50) === 0) return { id, hold, end: voidCommand(id, "gateway_429", { ...ended, status: 429 }) };
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
  return { id, hold, end: postCommand(id, posting, ended) };
}
