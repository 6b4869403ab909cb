// @module-tag races
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { chatWith } from "../../support/new-charges.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { until } from "../../support/until.ts";
import { open } from "../../support/wire-client.ts";

it("after kill -9 of a stream, the next start posts its extended hold, which covers the delivered output", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  const key = (await runFarebox(["keys", "create", "alice", "--database", database])).stdout.trim();
  await runFarebox(["budgets", "set", "key:alice", "1", "--per", "total", "--database", database]);
  const newest = () => {
    using db = Object.assign(new Database(database, { readonly: true }), { [Symbol.dispose]: () => db.close() });
    const row = db.prepare("select state, source, reason, hold, cost from charges order by seq desc limit 1");
    return row.safeIntegers().get() as { state: string; hold: bigint; cost: bigint | null };
  };
  const env = { FAREBOX_STREAM_SLICE: "64" };
  await using serve = await startServe({ database, gateway: sandbox, env });
  let first = 0n;
  let billedBefore = 0n;
  const grows = async () => {
    billedBefore = sandbox.billed.cost;
    // A busy machine may read the tokens of a whole second at once; at this pace they still fit the hold.
    const client = await open({ url: serve.url, key }, chatWith("endless:25", { stream: true }));
    first = newest().hold;
    void client.rest().catch(() => undefined);
    await until(() => newest().hold > first * 2n || newest().state !== "pending", "the hold has grown");
    if (newest().state === "pending") return true;
    await sandbox.waitFor(({ activeStreams }) => activeStreams === 0);
    return false;
  };
  // On a busy machine the ledger may not extend the hold in time, which ends the stream.
  await until(grows, "the hold of a stream has grown");
  serve.signal("SIGKILL");
  await serve.ended;
  const pending = newest();
  expect(pending).toMatchObject({ state: "pending" });
  expect(pending.hold).toBeGreaterThan(first * 2n);

  await using again = await startServe({ database, gateway: sandbox, env });
  await again.printed(/"recovered":1\b/);
  const { hold } = pending;
  expect(newest()).toMatchObject({ state: "posted", source: "assumed", reason: "crash", hold, cost: hold });
  await sandbox.waitFor(({ activeStreams }) => activeStreams === 0);
  expect(hold).toBeGreaterThanOrEqual(sandbox.billed.cost - billedBefore);
  expect((await runFarebox(["verify", "--database", database])).code).toBe(0);
});
