import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { connectToWrite } from "../../../src/ledger/sqlite/connection.ts";
import { cleanEnvironment } from "../../support/farebox-process.ts";
import { nodeFlags } from "../../support/node-flags.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";

const at = Date.parse("2026-11-20T11:00:00Z");
let farebox: Harness;

beforeEach(async () => {
  farebox = harness();
  await farebox.run("keys", "create", "alice", "--team", "research");
  const { keys } = await farebox.json<{ keys: { id: string }[] }>("keys", "list");
  const alice = keys[0]?.id ?? "";
  await using store = await farebox.open();
  await spend(store.ledger, { id: "r2", at, key: alice, team: "research", input: 1000, output: 500 });
  await spend(store.ledger, {
    id: "r1",
    at: at - 86_400_000,
    key: "",
    input: 0,
    output: 1000,
    model: "=cmd|' /C calc'!A0",
  });
  await store.ledger.hold({
    id: "r3",
    kind: "request",
    at: at + 1,
    caller: { key: alice, team: "research" },
    route: "chat",
    model: "model-x",
    group: null,
    stream: true,
    price: null,
    amount: null,
    bounded: true,
    tags: {},
    retry: 0,
  });
  await store.ledger.adjust("r2", { id: "fix", at: at + 9, amount: usd("0.25"), why: "=late", by: "alice" });
});

afterEach(() => farebox[Symbol.dispose]());

/** Adds 20,000 charges. */
function addMany() {
  const db = connectToWrite(farebox.database);
  db.exec(`insert into charges (id, kind, state, owner, admitted_at, ended_at, key, route, model, stream)
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 20000)
    select 'v' || i, 'request', 'voided', 1, ${at}, ${at}, '', 'chat', 'model-a', 0 from n`);
  db.close();
}

/** Starts a command whose output is not read yet. */
function start(...args: readonly string[]) {
  const bin = fileURLToPath(new URL("../../../bin/farebox.mjs", import.meta.url));
  const child = spawn(process.execPath, [...nodeFlags, bin, ...args, "--database", farebox.database], {
    env: cleanEnvironment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  return { child, exited: once(child, "exit") };
}

describe("the stdout of a command", () => {
  it("may be closed early by its reader without an error", async () => {
    addMany();
    const { child, exited } = start("export");
    let stderr = "";
    child.stderr.on("data", (chunk) => (stderr += String(chunk)));
    await Promise.race([once(child.stdout, "data"), exited]);
    child.stdout.destroy();
    const [code] = await exited;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });

  it("is complete for a reader that begins late", async () => {
    addMany();
    const { child, exited } = start("charges", "--state", "voided", "--limit", "1000", "--json");
    // A process that does not wait for its reader would have ended by then.
    await Promise.race([exited, delay(4_000)]);
    expect(child.exitCode).toBe(null);
    const { charges } = JSON.parse(await text(child.stdout)) as { charges: object[] };
    expect(charges).toHaveLength(1000);
    expect((await exited)[0]).toBe(0);
  });
});
