// @module-tag races
import { everyRequest } from "../../../src/core/scope.ts";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { tamper } from "../../support/derived-rows.ts";
import { alice, budget, endAt, holdOf, openStore, posting, utc } from "../../support/ledger-fixtures.ts";
import { until } from "../../support/until.ts";
import { readFile } from "../crash/ledger-snapshot.ts";

const dayMs = 86_400_000;

/** Sends requests from parallel clients until `stop`, which returns how many were answered with 200. */
function load({ url }: ServeProcess, key: string, clients = 4) {
  const ending = new AbortController();
  let answered = 0;
  const client = async () => {
    while (!ending.signal.aborted) {
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: "gpt-4o-mini", messages: [{ role: "user", content: "Hello." }], max_tokens: 20 }),
      });
      await answer.text();
      if (answer.status === 200) answered++;
    }
  };
  const running = Promise.all(Array.from({ length: clients }, client));
  return {
    stop: async () => {
      ending.abort();
      await running;
      return answered;
    },
  };
}

function commandsOn(database: string) {
  const farebox = (...args: string[]) => runFarebox(args, { env: { FAREBOX_DATABASE: database } });
  const text = async (...args: string[]) => {
    const { code, stdout, stderr } = await farebox(...args);
    expect(code, stderr + stdout).toBe(0);
    return stdout;
  };
  return { farebox, text, json: async (...args: string[]) => JSON.parse(await text(...args, "--json")) };
}

it("a backup made while serve writes can be restored after serve has ended, and passes verify", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  const backup = join(folder.path, "backup.db");
  const { farebox, text, json } = commandsOn(database);
  const key = (await text("keys", "create", "alice")).trim();
  await text("budgets", "set", "each-key", "100", "--per", "total");
  await using serve = await startServe({ database, gateway: sandbox });

  const running = load(serve, key);
  const copied = await json("db", "backup", backup);
  const again = await farebox("db", "backup", backup);
  expect(again).toMatchObject({ code: 2, stderr: `farebox: ${backup} already exists; --force replaces it\n` });
  await until(() => readFile(database).rows.length > copied.verify.charges, "more charges are in the ledger");
  const forced = await json("db", "backup", backup, "--force");
  const refused = await farebox("db", "restore", backup);
  expect(refused).toMatchObject({
    code: 2,
    stderr: `farebox: farebox serve is using the ledger at ${database}; stop it first\n`,
  });
  const answered = await running.stop();

  for (const { verify, file } of [copied, forced])
    expect({ file, ...verify }).toMatchObject({ file: backup, ok: true, differences: [] });
  expect(forced.verify.charges).toBeGreaterThan(copied.verify.charges);
  expect(answered).toBeGreaterThanOrEqual(forced.verify.charges - 4);
  expect(statSync(backup).mode & 0o777).toBe(0o600);

  serve.signal("SIGTERM");
  expect((await serve.ended).code).toBe(0);
  const restored = await json("db", "restore", backup);
  expect(restored).toMatchObject({ file: database, verify: { ok: true, charges: forced.verify.charges } });
  expect(statSync(database).mode & 0o777).toBe(0o600);
  expect(await json("verify", "--database", restored.replaced)).toMatchObject({ ok: true });
  expect(readdirSync(folder.path).filter((name) => /part|restoring/.test(name))).toEqual([]);

  await using next = await startServe({ database, gateway: sandbox });
  expect(await json("verify")).toMatchObject({ ok: true, charges: forced.verify.charges });
  expect((await json("charges", "--state", "pending")).charges).toEqual([]);
  const [window] = (await json("budgets", "list")).budgets;
  expect(window.spent_usd).toBe((await json("report", "--by", "key")).total.cost_usd);
  next.signal("SIGTERM");
  await next.ended;
});

it("pruning under load keeps every sum, and verify finds no difference", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  const { text, json } = commandsOn(database);
  const old = Date.now() - 200 * dayMs;
  {
    await using store = await openStore({ path: database, calendar: utc, clock: systemClock(), access: "serve" });
    await store.ledger.setBudget(budget(everyRequest, "total", "9000"), old);
    await Promise.all(
      Array.from({ length: 3000 }, async (_, index) => {
        const at = old + index * 60_000 * 30;
        await store.ledger.hold(
          holdOf(`old-${index}`, usd("0.01"), { at, caller: { ...alice, key: `k-${index % 3}` } }),
        );
        await store.ledger.post(`old-${index}`, posting(index, 100), endAt(at));
      }),
    );
  }
  const key = (await text("keys", "create", "alice")).trim();
  const oldReport = () => json("report", "--by", "key,model,day", "--since", "300d", "--until", "60d");
  const before = await oldReport();
  await using serve = await startServe({ database, gateway: sandbox });
  const running = load(serve, key);

  const pruning = runFarebox(["db", "prune", "--older-than", "60d", "--json"], { env: { FAREBOX_DATABASE: database } });
  const verified = [await json("verify"), await json("verify")];
  const { code, stdout, stderr } = await pruning;
  expect(code, stderr).toBe(0);
  const pruned = JSON.parse(stdout);
  expect(pruned).toMatchObject({ charges: 3000, dry_run: false });
  await running.stop();

  expect([...verified, await json("verify")].filter(({ ok }) => !ok)).toEqual([]);
  // The edges of the span depend on the current time.
  expect({ ...(await oldReport()), since: "", until: "" }).toEqual({ ...before, since: "", until: "" });
  const [window] = (await json("budgets", "list")).budgets;
  expect(window.spent_usd).toBe((await json("report", "--since", "300d", "--by", "team")).total.cost_usd);
});

it("a serve under load applies repairs and corrections of commands at its next admission", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  const { farebox, text, json } = commandsOn(database);
  const key = (await text("keys", "create", "alice")).trim();
  for (const period of ["total", "1d"]) await text("budgets", "set", "key:alice", "100", "--per", period);
  await using serve = await startServe({ database, gateway: sandbox });

  const running = load(serve, key);
  await until(
    async () => (await json("charges", "--state", "posted", "--limit", "1")).charges.length > 0,
    "a charge is posted",
  );
  tamper(
    database,
    `update windows set spent = spent + 99000000000000; update rollup_day set cost = cost - 1, requests = requests + 1; delete from rollup_quarter;
     delete from charge_windows where charge in (select seq from charges where state = 'posted')`,
  );
  const repairing = await farebox("verify", "--repair", "--json");
  await running.stop();
  expect(repairing.code, repairing.stdout + repairing.stderr).toBe(0);
  const { ok, repairs } = JSON.parse(repairing.stdout);
  expect(ok).toBe(true);
  expect(new Set(repairs.map(({ kind }: { kind: string }) => kind))).toEqual(new Set(["rollup", "window"]));
  expect(await json("verify")).toMatchObject({ ok: true });

  // A correction that exhausts the budget applies to the next request, and so does one that frees it.
  const chat = async () => {
    const answer = await fetch(`${serve.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: "gpt-4o-mini", messages: [{ role: "user", content: "Hello." }], max_tokens: 20 }),
    });
    await answer.text();
    return answer.status;
  };
  const [{ request_id }] = (await json("charges", "--state", "posted", "--limit", "1")).charges;
  expect(await chat()).toBe(200);
  await text("charges", "adjust", request_id, "100", "--why", "billed by hand");
  expect(await chat()).toBe(402);
  await text("charges", "adjust", request_id, "-100", "--why", "billed to the wrong one");
  expect(await chat()).toBe(200);
  serve.signal("SIGTERM");
  await serve.ended;
  expect(await json("verify")).toMatchObject({ ok: true });
});

it("a backup of a missing ledger is refused in one line and creates no file", async () => {
  await using folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  const { farebox } = commandsOn(database);
  expect(await farebox("db", "backup", join(folder.path, "b.db"))).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^farebox: there is no ledger at .*; [^\n]+\n$/),
  });
  expect(existsSync(database)).toBe(false);
});
