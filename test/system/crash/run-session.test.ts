// @module-tag races
import { join } from "node:path";
import { expect, it } from "vitest";
import { formatUsd, type PicoUsd } from "../../../src/core/money.ts";
import { digest, randomFrom } from "../../../src/sandbox/random.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { runFarebox, startFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { openStore, utc } from "../../support/ledger-fixtures.ts";
import { until } from "../../support/until.ts";
import { gatewayRequests, readFile } from "./ledger-snapshot.ts";
import { startLoad } from "./load.ts";
import { brokenPromises } from "./promises.ts";

const limit = 200_000_000_000n;

/** An agent that prints its credential and runs until it is ended. */
const agent = `console.log("with " + process.env.OPENAI_API_KEY); setInterval(() => {}, 1000)`;

it("a session of farebox run continues within its budget after kill -9 of the proxy, and no charge is lost", async () => {
  const seed = 17;
  const random = randomFrom(digest(seed, "session"));
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox({ keepRequests: 100_000, keepCalls: 100_000, seed });
  const database = join(folder.path, "farebox.db");
  await runFarebox(["keys", "create", "alice", "--database", database]);
  await using serve = await startServe({ database, gateway: sandbox });
  const { port } = new URL(serve.url);
  const args = ["run", "--budget", formatUsd(limit as PicoUsd), "--port", port, "--database", database];
  await using run = startFarebox([...args, "--", process.execPath, "-e", agent]);
  const [, credential = ""] = await run.printed(/^with (\S+)$/m);
  const load = { keys: [credential], taskKey: null, clients: 20, random };

  const first = startLoad({ ...load, url: serve.url, name: "first" });
  await sandbox.waitFor(({ requests }) => requests.length >= 60);
  serve.signal("SIGKILL");
  await serve.ended;
  await first.stop();
  const pending = readFile(database).rows.filter(({ state }) => state === "pending").length;
  expect(pending, "some were in the middle of it").toBeGreaterThan(0);

  await using again = await startServe({ database, gateway: sandbox });
  await again.printed(new RegExp(`"recovered":${pending}\\b`));
  const second = startLoad({ ...load, url: again.url, name: "second" });
  await until(() => second.sent.some(({ status }) => status === 402), "the budget is exhausted");
  await second.stop();
  const isSettled = () => readFile(database).rows.every(({ state }) => state !== "pending");
  await until(isSettled, "every charge is settled");
  run.signal("SIGTERM");
  const ended = await run.ended;

  await using store = await openStore({ path: database, calendar: utc, clock: systemClock(), access: "read" });
  const file = readFile(database);
  const broken = brokenPromises({
    death: "killed",
    sent: [...first.sent, ...second.sent],
    file,
    gateway: gatewayRequests(sandbox, { request: 0, call: 0 }),
    verification: await store.ledger.verify(),
    limits: new Map(),
  });
  expect(broken).toEqual([]);
  expect(new Set(second.sent.map(({ end }) => end))).toContain("whole");
  const spent = file.rows.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
  expect(file.windows).toEqual([expect.objectContaining({ mode: "hard", limit, spent, held: 0n })]);
  const usd = (amount: bigint) => `USD ${formatUsd(amount as PicoUsd)}`;
  expect(ended).toMatchObject({
    code: 143,
    stderr: expect.stringContaining(`${usd(limit - spent)} of the budget of ${usd(limit)} remains`),
  });
  expect(ended.stderr).toMatch(new RegExp(`of alice: .* tokens, ${usd(spent)} \\(`));
  // `farebox run` ends its session in the ledger; a proxy sees that within a second.
  const late = () => fetch(`${again.url}/v1/models`, { headers: { authorization: `Bearer ${credential}` } });
  await until(async () => (await late()).status === 401, "the credential of the session is refused");
});
