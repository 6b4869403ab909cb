import { expect, it } from "vitest";
import { everyRequest, parseScope } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { repairRow } from "../../src/ledger/audit/repair-row.ts";
import { beginning, carryOthers } from "../../src/ledger/carried-sums.ts";
import type { MaintainedLedger } from "../../src/ledger/maintenance.ts";
import { connect } from "../../src/ledger/postgres/connection.ts";
import { ledgerOn } from "../../src/ledger/postgres/maintenance.ts";
import type { Query } from "../../src/ledger/queries/query.ts";
import type { SpentBefore } from "../../src/ledger/rows/budgets.ts";
import { connectToWrite } from "../../src/ledger/sqlite/connection.ts";
import { ledgerIn } from "../../src/ledger/sqlite/maintenance.ts";
import { longQueries } from "../../src/ledger/sqlite/queries.ts";
import { Writer } from "../../src/ledger/sqlite/writer.ts";
import { calendarOf } from "../../src/platform/clock.ts";
import { LedgerUnavailable } from "../../src/ports/ledger.ts";
import type { Store } from "../../src/ports/stores.ts";
import {
  alice,
  budget,
  endAt,
  holdOf,
  inThreads,
  onPostgres,
  openPostgresStore,
  openStore,
  posting,
  tempFolder,
} from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";
import { newDatabase } from "../support/shared-postgres.ts";

const clock = manualClock("2026-11-20T13:00:30Z");
/** In the previous hour in UTC, but in the current hour in Kathmandu. */
const at = Date.parse("2026-11-20T12:59:59Z");
const kathmandu = "Asia/Kathmandu";

type Access = "serve" | "command";

/** Creates a ledger with one charge in UTC. */
async function world() {
  const database = onPostgres ? await newDatabase() : null;
  const folder = tempFolder();
  const open = (access: Access, zone: string): Promise<Store> => {
    const options = { calendar: calendarOf(zone), clock, access };
    return database === null
      ? openStore({ ...options, path: folder.database, threads: inThreads })
      : openPostgresStore({ ...options, url: database.url });
  };
  {
    await using store = await open("serve", "UTC");
    await store.ledger.hold(holdOf("a", usd("1"), { at }));
    await store.ledger.post("a", posting(1000, 0), endAt(at));
  }
  return {
    open,
    path: folder.database,
    server: database?.server,
    /** Opens the ledger for maintenance. */
    maintain: database === null ? ledgerIn(folder.database) : ledgerOn(database.server),
    async [Symbol.asyncDispose]() {
      folder[Symbol.dispose]();
      await database?.[Symbol.asyncDispose]();
    },
  };
}

const changed = "the time zone of the ledger has changed from UTC to Asia/Kathmandu; run the command again";

it("rejects a budget of a command if a proxy has started in another time zone meanwhile", async () => {
  await using self = await world();
  const command = await self.open("command", "UTC");
  await using proxy = await self.open("serve", kathmandu);
  const hourly = budget(everyRequest, "1h", "1");
  await expect(command.ledger.setBudget(hourly, clock.now())).rejects.toThrow(new LedgerUnavailable(changed));
  await command[Symbol.asyncDispose]();
  await using again = await self.open("command", "UTC");
  await again.ledger.setBudget(hourly, clock.now());
  expect(await proxy.ledger.windows(clock.now())).toMatchObject([{ spent: usd("0.001") }]);
  expect((await proxy.ledger.verify()).differences).toEqual([]);
});

it("rejects a correction of a command if a proxy has started in another time zone meanwhile", async () => {
  await using self = await world();
  await using command = await self.open("command", "UTC");
  await using proxy = await self.open("serve", kathmandu);
  const correction = { id: "fix", at, amount: usd("1"), why: "late fee", by: "root" };
  expect(await command.ledger.adjust("a", correction)).toEqual({ unavailable: changed });
  await using again = await self.open("command", "UTC");
  expect(await again.ledger.adjust("a", correction)).toBe("ok");
  expect((await proxy.ledger.verify()).differences).toEqual([]);
});

it.each<[string, (ledger: MaintainedLedger) => Query<unknown>]>([
  ["prune", ({ dialect, calendar }) => carryOthers(dialect, calendar, clock.now(), beginning)],
  [
    "repair",
    ({ dialect, calendar }) =>
      repairRow(dialect, calendar, { of: "rollup_day", time: calendar.dateOf(at), key: alice.key }),
  ],
])("rejects a step of %s if a proxy has started in another time zone meanwhile", async (_, step) => {
  await using self = await world();
  await using opened = new AsyncDisposableStack();
  const work = async (ledger: MaintainedLedger) => {
    opened.use(await self.open("serve", kathmandu));
    return { ok: true, result: await ledger.write(() => step(ledger)) } as const;
  };
  expect(await self.maintain(work, { calendar: calendarOf("UTC"), access: "write" })).toEqual({
    ok: false,
    failure: { kind: "unusable", message: changed },
  });
});

it.skipIf(!onPostgres)("corrects a late settlement of a proxy that was suspended during the change", async () => {
  await using self = await world();
  await using suspended = await self.open("serve", "UTC");
  await suspended.ledger.setBudget(budget(everyRequest, "1d", "5"), clock.now());
  await suspended.ledger.hold(holdOf("b", usd("1"), { at }));
  if (self.server === undefined) throw new Error("the ledger is on a server");
  await using database = connect(self.server, { applicationName: "test", max: 1, statementMs: null });
  await database.run("update owners set ended_at = clock_timestamp()");
  await using proxy = await self.open("serve", kathmandu);
  expect(await proxy.ledger.recover(clock.now())).toBe(1);
  expect(await suspended.ledger.post("b", posting(1000, 0), endAt(at))).toMatchObject({ ok: true, first: false });
  expect(await proxy.ledger.windows(clock.now())).toMatchObject([{ spent: usd("0.002"), held: 0n }]);
  expect((await proxy.ledger.verify()).differences).toEqual([]);
});

it.skipIf(onPostgres || inThreads)("ignores sums of a new budget that are for another span", async () => {
  await using self = await world();
  const eachUser = parseScope("each-model");
  if (eachUser === undefined) throw new Error("each-model is a scope");
  const hourly = budget(eachUser, "1h", "1");
  const db = connectToWrite(self.path);
  using _ = { [Symbol.dispose]: () => db.close() };
  const before: SpentBefore | null = await longQueries(db, calendarOf("UTC")).spentBefore(hourly, clock.now());
  expect(before).toMatchObject({ spent: "[]" });
  await using proxy = await self.open("serve", kathmandu);
  new Writer(db, calendarOf(kathmandu), null).apply([
    ["run", "budgets.setBudget", [hourly, clock.now(), "test", before]],
  ]);
  expect(await proxy.ledger.windows(clock.now())).toMatchObject([{ subject: "model-a", spent: usd("0.001") }]);
  expect((await proxy.ledger.verify()).differences).toEqual([]);
});
