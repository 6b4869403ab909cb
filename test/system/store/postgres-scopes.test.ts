// @module-tag races
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parseScope } from "../../../src/core/scope.ts";
import { connect } from "../../../src/ledger/postgres/connection.ts";
import { budget } from "../../support/ledger-fixtures.ts";
import { nodeFlags } from "../../support/node-flags.ts";
import { differencesIn, LedgerProxy } from "../../support/postgres-proxies.ts";
import { newDatabase } from "../../support/shared-postgres.ts";

const child = fileURLToPath(new URL("../../support/scope-traffic.ts", import.meta.url));

/** Starts a proxy in a separate process. */
async function startTraffic(url: string, name: string) {
  const started = spawn(process.execPath, [...nodeFlags, child, url, name], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(started, "exit");
  const lines = createInterface(started.stdout)[Symbol.asyncIterator]();
  const epoch = Number((await lines.next()).value);
  return { started, exited, lines, epoch };
}

it("overlapping budgets of several kinds stay within their limits under two proxies, one of which is killed", async () => {
  await using database = await newDatabase();
  await using proxy = await LedgerProxy.open(database.server);
  await using reader = connect(database.server, { applicationName: "a look", max: 2, statementMs: null });
  const limits = {
    "team:red": "450",
    "key:k-1 model:gpt-5*": "100",
    "team:red each-user": "90",
    "each-key each-tag:session": "30",
    "each-model": "200",
  };
  for (const [text, limit] of Object.entries(limits)) {
    const scope = parseScope(text);
    if (scope === undefined) throw new Error(text);
    await proxy.setBudget(budget(scope, "1d", limit));
  }
  const [killed, other] = await Promise.all([
    startTraffic(database.url, "killed"),
    startTraffic(database.url, "other"),
  ]);
  const over = new AbortController();
  let exceeded: object[] = [];
  const watching = (async () => {
    while (!over.signal.aborted && exceeded.length === 0)
      exceeded = await reader.rows(
        "select w.* from windows w join budgets b on b.seq = w.budget where w.spent + w.held > b.amount_limit",
      );
  })();
  const settled = expect.stringMatching(/^settled /);
  killed.started.stdin.write("go\n");
  for (let lines = 0; lines < 20; lines++) expect((await killed.lines.next()).value).toEqual(settled);
  // The other proxy begins while the first still has most of its requests to send.
  other.started.stdin.end("go\n");
  for (let lines = 0; lines < 20; lines++) expect((await other.lines.next()).value).toEqual(settled);
  killed.started.kill("SIGKILL");
  for await (const line of other.lines) if (line === "done") break;
  expect(await other.exited).toEqual([0, null]);
  expect(await killed.exited).toEqual([null, "SIGKILL"]);
  over.abort();
  await watching;
  expect(exceeded).toEqual([]);
  expect(await differencesIn(reader)).toEqual([]);

  // Recovery posts the pending holds of both proxies with their whole amounts.
  await reader.run("update owners set beat_at = beat_at - interval '61 seconds' where epoch = any($1)", [
    [killed.epoch, other.epoch],
  ]);
  expect(await proxy.recover()).toBeGreaterThan(0);
  while ((await proxy.recover()) > 0);
  const counts = await reader.row<{ pending: bigint; posted: bigint; several: bigint }>(
    `select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'posted') as posted,
         count(*) filter (where entries is not null) as several from charges`,
  );
  // The limits refuse some of the 1,000 requests.
  expect(counts).toEqual({ pending: 0n, posted: expect.any(BigInt), several: 0n });
  expect(counts?.posted).toBeGreaterThan(20n);
  expect(counts?.posted).toBeLessThan(1_000n);
  expect(await reader.rows("select * from windows where held <> 0")).toEqual([]);
  expect(await differencesIn(reader)).toEqual([]);
});
