import { everyRequest } from "../../../src/core/scope.ts";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import type { Admin, RunSession } from "../../../src/core/keys.ts";
import { usd } from "../../../src/core/money.ts";
import { LedgerUnavailable } from "../../../src/ports/ledger.ts";
import type { NewMessage } from "../../../src/ports/outbox.ts";
import { readOnlyChannel, bind } from "../../../src/ledger/queued-store.ts";
import { CommandQueue } from "../../../src/ledger/queue.ts";
import { migrate } from "../../../src/ledger/sqlite/migrate.ts";
import { answerEach } from "../../../src/ledger/sqlite/answer.ts";
import { Writer } from "../../../src/ledger/sqlite/writer.ts";
import type { RunCommand } from "../../../src/ledger/tables/tables.ts";
import { budgets } from "../../../src/ledger/tables/budgets.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { budget, key, noon, utc } from "../../support/ledger-fixtures.ts";

const admin: Admin = {
  id: "a",
  name: "ada",
  role: "editor",
  digest: "d",
  createdAt: noon,
  expiresAt: null,
  revokedAt: null,
};
const message: NewMessage = {
  id: "m",
  kind: "alert",
  target: "red",
  dedupeKey: "m",
  keyUntil: noon,
  payload: "{}",
  createdAt: noon,
};
const session: RunSession = {
  id: "run_one",
  key: key("alice").id,
  secret: key("alice").digest,
  tags: {},
  budget: usd("1"),
  createdAt: noon,
  expiresAt: noon + 1,
  endedAt: null,
};
const callback = { charge: "c", digest: "d", sealed: "s", createdAt: noon };

function freshDatabase() {
  const db = new Database(":memory:");
  migrate(db);
  db.prepare("update meta set time_zone = 'UTC'").run();
  return db;
}

it("a write that was not executed returns or throws what its port defines", async () => {
  const queue = new CommandQueue(readOnlyChannel, systemClock(), { write: () => {}, changed: () => {} });
  const query = () => Promise.reject(new Error("nothing is asked"));
  const outbox = bind("outbox", query, queue);
  expect(await outbox.put([message])).toBeUndefined();
  expect(await outbox.tried("m", { kind: "delivered", at: noon })).toBe(false);
  expect(await outbox.remove(noon, noon)).toBe(0);
  expect(await bind("callbacks", query, queue).put(callback)).toBe(false);
  await expect(bind("keys", query, queue).create(key("alice"))).rejects.toThrow(LedgerUnavailable);
  await expect(bind("samples", query, queue).remove([noon])).rejects.toThrow(LedgerUnavailable);
  await expect(bind("sessions", query, queue).end("s", noon)).rejects.toThrow(LedgerUnavailable);
});

it("the writer announces changes of keys, teams, budgets and sessions, and no others", () => {
  const db = freshDatabase();
  const writer = new Writer(db, utc, null);
  const written = (...command: RunCommand extends infer C extends RunCommand ? [C[1], C[2]] : never) => {
    const { outcomes, changed } = writer.apply([["run", ...command] as unknown as RunCommand]);
    expect(outcomes).toEqual([{ kind: "done", reply: expect.anything() }]);
    return changed;
  };
  expect(written("keys.create", [key("alice")])).toBe(true);
  expect(written("keys.update", [key("alice").id, { team: "red" }, noon])).toBe(true);
  expect(written("teams.update", ["red", { models: ["m"] }, noon])).toBe(true);
  expect(written("budgets.setBudget", [budget(everyRequest, "1d", "3"), noon])).toBe(true);
  expect(written("sessions.tidy", [noon])).toBe(false);
  expect(written("sessions.create", [session, null])).toBe(true);
  expect(written("sessions.tidy", [noon + 3_600_000_000])).toBe(true);
  expect(written("admins.create", [admin, "test"])).toBe(false);
  expect(written("outbox.put", [[message]])).toBe(false);
  expect(written("callbacks.put", [callback])).toBe(false);
});

it("budgets are changed only by the writer", () => {
  const set = () => answerEach(freshDatabase(), budgets.writes.setBudget(budget(everyRequest, "1d", "3"), noon));
  expect(set).toThrow("a query that changes budgets must be run by the writer");
});
