import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectToWrite } from "../../../src/ledger/sqlite/connection.ts";
import { cleanEnvironment } from "../../support/farebox-process.ts";
import { nodeFlags } from "../../support/node-flags.ts";
import { tempFolder, type TempFolder } from "../../support/ledger-fixtures.ts";
import { writeEmptyLedger } from "../../support/new-ledger.ts";

const at = Date.parse("2026-11-20T11:00:00Z");
let folder: TempFolder;

/** Writes a ledger with 20,000 charges. */
beforeEach(() => {
  folder = tempFolder();
  writeEmptyLedger(folder.database);
  const db = connectToWrite(folder.database);
  db.exec(`insert into charges (id, kind, state, owner, admitted_at, ended_at, key, route, model, stream)
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 20000)
    select 'v' || i, 'request', 'voided', 1, ${at}, ${at}, '', 'chat', 'model-a', 0 from n`);
  db.close();
});
afterEach(() => folder[Symbol.dispose]());

/** Starts a command whose output is not read yet. */
function start(...args: readonly string[]) {
  const bin = fileURLToPath(new URL("../../../bin/farebox.mjs", import.meta.url));
  const child = spawn(process.execPath, [...nodeFlags, bin, ...args, "--database", folder.database], {
    env: cleanEnvironment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  return { child, exited: once(child, "exit") };
}

describe("the stdout of a command", () => {
  it("may be closed early by its reader without an error", async () => {
    const { child, exited } = start("export");
    let stderr = "";
    child.stderr.on("data", (chunk) => (stderr += String(chunk)));
    await Promise.race([once(child.stdout, "data"), exited]);
    child.stdout.destroy();
    const [code] = await exited;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });

  it("is complete for a reader that begins late", async () => {
    const { child, exited } = start("charges", "--state", "voided", "--limit", "1000", "--json");
    // A process that does not wait for its reader would have ended by then.
    await Promise.race([exited, delay(4_000)]);
    expect(child.exitCode).toBe(null);
    const { charges } = JSON.parse(await text(child.stdout)) as { charges: object[] };
    expect(charges).toHaveLength(1000);
    expect((await exited)[0]).toBe(0);
  });
});
