import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { chatWith } from "../../support/books.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { open } from "../../support/wire-client.ts";

it(
  "kill -9 while a hold grows: the next start posts the hold as it was then, which covers what was delivered",
  { timeout: 60_000 },
  async () => {
    await using folder = await temporaryFolder();
    await using sandbox = await startSandbox();
    const database = join(folder.path, "farebox.db");
    const key = (await runFarebox(["keys", "create", "alice", "--database", database])).stdout.trim();
    await runFarebox(["budgets", "set", "key:alice", "1", "--per", "1mo", "--database", database]);
    const holds = () => {
      using db = Object.assign(new Database(database, { readonly: true }), { [Symbol.dispose]: () => db.close() });
      return db.prepare("select state, source, reason, hold, cost from charges").safeIntegers().all() as {
        state: string;
        hold: bigint;
        cost: bigint | null;
      }[];
    };
    const env = { FAREBOX_STREAM_SLICE: "64" };
    const serve = await startServe({ database, gateway: sandbox, env });
    const client = await open({ url: serve.url, key }, chatWith("endless:2", { stream: true }));
    const first = holds()[0]?.hold ?? 0n;
    const reading = client.rest().catch(() => undefined);
    await sandbox.waitFor(({ requests }) => (requests[0]?.deltas ?? 0) > 500, 20_000);
    serve.signal("SIGKILL");
    await serve.ended;
    await reading;
    const [pending] = holds();
    expect(pending).toMatchObject({ state: "pending" });
    expect(pending?.hold).toBeGreaterThan(first * 2n);

    await using again = await startServe({ database, gateway: sandbox, env });
    expect(again.stderr).toContain('"recovered":1');
    expect(holds()).toMatchObject([
      { state: "posted", source: "assumed", reason: "crash", hold: pending?.hold, cost: pending?.hold },
    ]);
    await sandbox.waitFor(({ activeStreams }) => activeStreams === 0);
    expect(pending?.hold).toBeGreaterThanOrEqual(sandbox.billed.cost);
    expect((await runFarebox(["verify", "--database", database])).code).toBe(0);
  },
);
