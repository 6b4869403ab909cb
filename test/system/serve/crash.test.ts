// @module-tag races
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import type { Sandbox, SeenRequest } from "../../../src/sandbox/options.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";

interface Row {
  readonly number: string;
  readonly state: string;
  readonly source: string | null;
  readonly hold: bigint;
  readonly cost: bigint | null;
  readonly reason: string | null;
}

interface LedgerRows {
  readonly rows: readonly Row[];
  readonly windows: readonly { readonly spent: bigint; readonly held: bigint }[];
}

function rowsIn(database: string): LedgerRows {
  const db = new Database(database, { readonly: true });
  try {
    const rows = db.prepare(
      "select json_extract(tags, '$.number') number, state, source, hold, cost, reason from charges",
    );
    const windows = db.prepare("select spent, held from windows");
    return { rows: rows.safeIntegers().all() as Row[], windows: windows.safeIntegers().all() as LedgerRows["windows"] };
  } finally {
    db.close();
  }
}

/** Returns the numbers of the requests that the gateway has read. */
function numbersAt(sandbox: Sandbox): string[] {
  return sandbox.requests
    .filter(({ body }) => body.length > 0)
    .map(({ body }) => String(JSON.parse(body.toString()).user));
}

/** Sends requests to a proxy that is about to be killed. */
function sendMany(serve: ServeProcess, key: string, numbers: readonly string[], paceMs: number): Promise<unknown> {
  return Promise.allSettled(
    numbers.map(async (number, index) => {
      const stream = index % 3 !== 0;
      const response = await fetch(`${serve.url}/v1/chat/completions`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          authorization: `Bearer ${key}`,
          "x-farebox-tag": `number=${number}`,
        },
        body: JSON.stringify({
          model: "gpt-4o",
          messages: [{ role: "user", content: stream ? `#sandbox tokens:200+slow:${paceMs}` : "#sandbox latency:40" }],
          max_tokens: 300,
          user: number,
          ...(stream && { stream, stream_options: { include_usage: true } }),
        }),
      });
      await response.arrayBuffer();
    }),
  );
}

/** Requests that the gateway has seen since the last kill. */
type Seen = readonly SeenRequest[];

const answered = (seen: Seen, stream: boolean) =>
  seen.filter(({ ended, deltas }) => ended === "answered" && deltas > 0 === stream);

const inTheMiddle = "in the middle of 200 streams";

/**
 * Moments at which the proxy is killed, each a condition on the requests that the gateway has seen. A round sends 300
 * requests: 200 paced streams and 100 plain ones.
 */
const moments: Readonly<Record<string, (seen: Seen) => boolean>> = {
  "at the first request": (seen) => seen.length > 0,
  "while holds are placed": (seen) => seen.length > 60,
  "when all have been sent": (seen) => seen.length === 300,
  "while plain requests settle": (seen) => answered(seen, false).length > 30,
  [inTheMiddle]: (seen) => seen.filter(({ deltas, ended }) => ended === "open" && deltas > 5).length === 200,
  "while streams settle": (seen) => answered(seen, true).length > 50,
};

it("kill -9 at any moment loses no request that reached the gateway", { timeout: 300_000 }, async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox({ keepRequests: 10_000 });
  const database = join(folder.path, "farebox.db");
  const key = (await runFarebox(["keys", "create", "alice", "--database", database])).stdout.trim();
  await runFarebox(["budgets", "set", "key:alice", "1000", "--per", "total", "--database", database]);
  let serve = await startServe({ database, gateway: sandbox });
  await using owned = new AsyncDisposableStack();
  owned.defer(() => serve[Symbol.asyncDispose]());

  let unsettled = 0;
  for (const [moment, reached] of Object.entries(moments)) {
    const before = sandbox.requests.length;
    const numbers = Array.from({ length: 300 }, (_, number) => `${moment} ${number}`);
    // The first of 200 streams must still run when the last one begins, even on a busy machine.
    const sent = sendMany(serve, key, numbers, moment === inTheMiddle ? 300 : 10);
    await sandbox.waitFor(({ requests }) => reached(requests.slice(before)));
    serve.signal("SIGKILL");
    await serve.ended;
    await sent;
    const pending = rowsIn(database).rows.filter(({ state }) => state === "pending").length;
    unsettled += pending;

    serve = await startServe({ database, gateway: sandbox });
    const { rows, windows } = rowsIn(database);
    const known = new Set(rows.map(({ number }) => number));
    expect(known.size, moment).toBe(rows.length);
    expect(
      numbersAt(sandbox).filter((number) => !known.has(number)),
      moment,
    ).toEqual([]);
    expect(
      rows.filter(({ state }) => state === "pending"),
      moment,
    ).toEqual([]);
    const recovered = rows.filter(({ reason }) => reason === "crash");
    expect(recovered, moment).toHaveLength(unsettled);
    expect(
      recovered.filter(({ hold, cost, source }) => cost !== hold || source !== "assumed"),
      moment,
    ).toEqual([]);
    if (pending > 0) await serve.printed(new RegExp(`"recovered":${pending}\\b`));
    const spent = rows.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
    expect(windows, moment).toEqual([{ spent, held: 0n }]);
    expect(spent, moment).toBeGreaterThanOrEqual(sandbox.billed.cost);
  }
  expect(unsettled).toBeGreaterThanOrEqual(200);
  const verified = await runFarebox(["verify", "--database", database]);
  expect(verified).toMatchObject({
    code: 0,
    stdout: `${rowsIn(database).rows.length} charges checked, no difference\n`,
  });
});

it("a second serve on the same ledger is refused while the first one runs, and starts after that one is killed", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  await using first = await startServe({ database, gateway: sandbox });
  const env = { FAREBOX_GATEWAY_URL: sandbox.url, FAREBOX_GATEWAY_API_KEY: sandbox.apiKey };
  const second = await runFarebox(["serve", "--database", database, "--port", "0"], { env });
  expect(second).toMatchObject({
    code: 2,
    stdout: "",
    stderr: `farebox: the ledger at ${database} is in use by another farebox\n`,
  });
  expect((await fetch(`${first.url}/readyz`)).status).toBe(200);
  first.signal("SIGKILL");
  await first.ended;
  await using third = await startServe({ database, gateway: sandbox });
  expect((await fetch(`${third.url}/readyz`)).status).toBe(200);
  expect(third.stderr).not.toContain("recovered");
});
