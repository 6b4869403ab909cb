import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { expect } from "vitest";
import type { OldLedger } from "../fixtures/old-ledgers/ledgers.ts";
import { credentialOf } from "../../src/wire/run-credential.ts";
import { harness } from "./cli-harness.ts";
import { startProxy } from "./running-proxy.ts";

const folder = new URL("../fixtures/old-ledgers/", import.meta.url);

/** Returns the SQL that recreates a ledger as its commit left it. */
export function oldLedgerSql({ name }: OldLedger): string {
  return gunzipSync(readFileSync(new URL(`${name}.sql.gz`, folder))).toString();
}

interface Report {
  readonly rows: readonly { readonly model: string; readonly requests: number }[];
}

/** Returns the report of a ledger by the program that created it. */
function oldReport({ name }: OldLedger): Report {
  const { rows, ...rest } = JSON.parse(readFileSync(new URL(`${name}.report.json`, folder), "utf8")) as Report;
  return { ...rest, rows: inOrder(rows) };
}

/** Sorts the rows of a report, because releases sort them differently. */
function inOrder(rows: Report["rows"]): Report["rows"] {
  const nameOf = (row: object) => JSON.stringify([Reflect.get(row, "key"), Reflect.get(row, "model")]);
  return rows.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}

/**
 * Upgrades a ledger to the schema `newest`, compares its report with that of the program that created it, and sends
 * requests through a proxy on it.
 */
export async function expectUpgrade(ledger: OldLedger, database: string, newest: number): Promise<void> {
  using cli = harness();
  cli.env = { FAREBOX_DATABASE: database, FAREBOX_TIME_ZONE: "Europe/Berlin" };
  const verified = async () => expect(await cli.json("verify")).toMatchObject({ differences: [] });
  const chats = ({ rows }: Report) =>
    rows.filter(({ model }) => model.startsWith("gpt")).reduce((sum, row) => sum + row.requests, 0);
  const report = () =>
    cli.json<Report>("report", "--by", "key,model", "--sort", "name", "--since", "2026-09-01", "--until", "2026-11-21");

  const old = oldReport(ledger);
  const migrated = await cli.json<{ backup: string | null }>("db", "migrate");
  expect(migrated).toMatchObject({ from: ledger.schema, to: newest });
  expect(migrated.backup === null).toBe(ledger.schema === newest);
  await verified();
  const { rows, ...rest } = await report();
  expect({ ...rest, rows: inOrder(rows) }).toMatchObject(old);
  expect(chats(old)).toBe(ledger.isEmpty ? 0 : 8);

  const running = await cli.json<{ charges: { model: string }[] }>("charges", "--state", "pending");
  const holds = running.charges.filter(({ model }) => model.startsWith("gpt"));
  const open = ledger.isEmpty ? 0 : 2;
  expect(holds).toHaveLength(open);
  {
    await using proxy = await startProxy({ env: cli.env, keyName: "carol" });
    expect(proxy.serving.recovered).toBe(open);
    await proxy.budget("key:carol", "1");
    expect((await proxy.chat({})).status).toBe(200);
    expect((await proxy.chat({ stream: true, stream_options: { include_usage: true } })).status).toBe(200);
    expect((await proxy.charges()).slice(-2)).toMatchObject([
      { state: "posted", source: "reported" },
      { state: "posted", source: "reported" },
    ]);
  }
  // The holds of the killed proxy are posted at the times of their requests, so the report includes them. Tasks are
  // not compared, because they depend on the gateway.
  expect(chats(await report())).toBe(chats(old) + open);
  await verified();
  expect(await cli.json("db", "migrate")).toEqual({ from: newest, to: newest, backup: null, restore: null });
}

const hourMs = 3_600_000;

/**
 * Returns SQL that adds keys with open sessions to a ledger whose sessions have no secrets. The key `once` was never
 * rotated. `twice` was rotated, with an overlap that lasts; its sessions began before and after the rotation.
 */
export function sessionsWithoutSecrets(now = Date.now()): string {
  const digest = (digit: string) => `'${digit.repeat(64)}'`;
  const session = (id: string, key: string, at: number) => `('run_${id}', '${key}', '{}', ${at}, ${now + hourMs})`;
  return `
    insert into keys (id, name, digest, created_at) values ('once', 'once', ${digest("1")}, 1);
    insert into keys (id, name, digest, created_at, rotated_at, previous_digest, previous_valid_until)
      values ('twice', 'twice', ${digest("2")}, 1, ${now - 2 * hourMs}, ${digest("3")}, ${now + hourMs});
    insert into run_sessions (id, key, tags, created_at, expires_at) values
      ${session("once", "once", now - hourMs)}, ${session("before", "twice", now - 3 * hourMs)}, ${session("after", "twice", now - hourMs)};`;
}

/** Expects that an upgrade keeps the sessions whose secret is known, and that no other one can be used. */
export async function expectSessionsUpgraded(database: string): Promise<void> {
  using cli = harness();
  cli.env = { FAREBOX_DATABASE: database, FAREBOX_TIME_ZONE: "Europe/Berlin" };
  await cli.run("db", "migrate");
  await using proxy = await startProxy({ env: cli.env, keyName: "carol" });
  const { sessions } = proxy.serving;
  const found = await Promise.all(["run_once", "run_before", "run_after"].map((id) => sessions.find(id)));
  expect(found.map((session) => session?.secret)).toEqual(["1".repeat(64), "", ""]);
  const secret = await sessions.secret();
  const statuses = found.map(async (session) => {
    const credential = credentialOf(session ?? expect.fail("the session remains"), secret);
    return (await fetch(`${proxy.url}/v1/farebox/me`, { headers: { authorization: `Bearer ${credential}` } })).status;
  });
  expect(await Promise.all(statuses)).toEqual([200, 401, 401]);
}
