import { formatScope } from "../../src/core/scope.ts";
import { parsePostgresUrl } from "../../src/core/postgres-url.ts";
import { openPostgres } from "../../src/ledger/postgres/open.ts";
import { openSqlite } from "../../src/ledger/sqlite/open.ts";
import type { OpenResult } from "../../src/ledger/store.ts";
import type { Store } from "../../src/ports/stores.ts";
import { calendarOf, systemClock } from "../../src/platform/clock.ts";
import { drive, type LedgerLoad, type LedgerSample } from "../ledger-load.ts";
import type { BudgetsParams, FromLedger, LedgerParams, ToLedger } from "../postgres.ts";

/** Process with a proxy's store. It executes the commands of bench/postgres.ts. */
process.once("disconnect", () => process.exit());
const send = (message: FromLedger) => process.send?.(message);
const params = JSON.parse(process.argv[2] ?? "") as LedgerParams;
const clock = systemClock();
const opened = await open(params);
if (!opened.ok) throw new Error(JSON.stringify(opened.failure));
const { store } = opened;
process.on("message", (message: ToLedger) => {
  answer(store, message).then(send, (error: unknown) => send({ kind: "failed", message: String(error) }));
});
send({ kind: "ready" });

function open({ database }: LedgerParams): Promise<OpenResult> {
  const options = { calendar: calendarOf("UTC"), clock, access: "serve", settlePauseMs: 10 } as const;
  const url = parsePostgresUrl(database);
  return url.ok ? openPostgres({ ...options, server: url.server }) : openSqlite({ ...options, path: database });
}

async function answer(store: Store, message: ToLedger): Promise<FromLedger> {
  switch (message.kind) {
    case "budgets":
      await setBudgets(store, message);
      return { kind: "done", sample: null };
    case "drive":
      return { kind: "done", sample: await measured(store, message.load) };
    case "stop":
      await store[Symbol.asyncDispose]();
      setImmediate(() => process.disconnect());
      return { kind: "done", sample: null };
  }
}

async function setBudgets({ ledger }: Store, { scopes, limit }: BudgetsParams): Promise<void> {
  for (const { scope, period } of await ledger.budgets())
    await ledger.removeBudget(formatScope(scope), period, clock.now());
  for (const scope of scopes)
    await ledger.setBudget(
      { scope, period: "1mo", mode: "hard", limit: BigInt(limit) as never, warnPercent: null },
      clock.now(),
    );
}

async function measured({ ledger }: Store, load: LedgerLoad): Promise<LedgerSample & { readonly cpuUs: number }> {
  const before = process.cpuUsage();
  const sample = await drive(ledger, load);
  const { user, system } = process.cpuUsage(before);
  return { ...sample, cpuUs: (user + system) / Math.max(1, sample.admitted + sample.refused) };
}
