// @module-tag races
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { gatewayRequests, readFile } from "./ledger-snapshot.ts";
import {
  limitFileSize,
  makeImmutable,
  makeMutable,
  mountSmallDisk,
  skipIfImpossible,
  whyNot,
  type SmallDisk,
} from "./disks.ts";

/** Room for a ledger of some hundred charges. */
const diskBytes = 4 * 1024 * 1024;

const noMount = whyNot(() => mountSmallDisk(diskBytes)[Symbol.dispose]());
const noLimit = whyNot(() => limitFileSize(process.pid, "unlimited"));
const noImmutable = whyNot(() => {
  const folder = mkdtempSync(join(tmpdir(), "farebox-immutable-"));
  const file = join(folder, "file");
  try {
    writeFileSync(file, "");
    makeImmutable([file]);
    makeMutable([file]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
if (noMount !== null && noLimit !== null && process.env["FAREBOX_TEST_NO_SKIP"] === "1") {
  throw new Error(
    `a full disk cannot be had in any way, and FAREBOX_TEST_NO_SKIP forbids skipping: ${noMount}; ${noLimit}`,
  );
}

const adminToken = "admin-token-of-this-test";
const env = { FAREBOX_AUTH: "open", FAREBOX_DRAIN: "2s", FAREBOX_ADMIN_TOKEN: adminToken };

interface Scene extends AsyncDisposable {
  readonly serve: ServeProcess;
  readonly sandbox: Sandbox;
  readonly database: string;
}

async function startScene(folder: string): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const sandbox = owned.use(await startSandbox());
  const database = join(folder, "farebox.db");
  const serve = owned.use(await startServe({ database, gateway: sandbox, env }));
  const kept = owned.move();
  return { serve, sandbox, database, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

let count = 0;

async function chat(
  { serve }: Scene,
  scenario: string,
  more: object = {},
): Promise<{ readonly number: string; readonly response: Response }> {
  const number = `n${++count}`;
  const response = await fetch(`${serve.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-farebox-tag": `number=${number}` },
    body: JSON.stringify({
      model: "gpt-4o",
      user: number,
      messages: [{ role: "user", content: `#sandbox ${scenario}` }],
      max_tokens: 900,
      ...more,
    }),
  });
  return { number, response };
}

/** Sends requests until one is refused because the ledger cannot be written; returns its number. */
async function untilRefused(scene: Scene): Promise<string> {
  for (;;) {
    const { number, response } = await chat(scene, "tokens:5");
    const text = await response.text();
    if (response.status === 200) continue;
    expect({ status: response.status, code: response.headers.get("x-farebox-error") }).toEqual({
      status: 503,
      code: "ledger_unavailable",
    });
    expect(JSON.parse(text).error).toMatchObject({ code: "ledger_unavailable", param: null });
    return number;
  }
}

/** Creates teams until a creation is refused because the ledger cannot be written. */
async function untilChangeRefused({ serve }: Scene): Promise<void> {
  for (;;) {
    const response = await fetch(`${serve.url}/admin/v1/teams`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${adminToken}` },
      body: JSON.stringify({ name: `team${++count}` }),
    });
    await response.text();
    if (response.status === 201) continue;
    expect({ status: response.status, code: response.headers.get("x-farebox-error") }).toEqual({
      status: 503,
      code: "ledger_unavailable",
    });
    return;
  }
}

/** Polls readyz without a pause, because under a quota writes fail and work by turns. */
async function untilReady({ serve }: Scene, ready: boolean): Promise<void> {
  for (;;) {
    const response = await fetch(`${serve.url}/readyz`);
    const { checks } = (await response.json()) as { checks: unknown };
    if ((response.status === 200) === ready) {
      expect(checks).toMatchObject({ accepting: true, ledger: ready });
      return;
    }
  }
}

/** Expects a row with the bill for every request that the gateway read, and no other row. */
async function expectSettled(scene: Scene, refused: readonly string[]): Promise<void> {
  const { serve, sandbox, database } = scene;
  serve.signal("SIGTERM");
  expect(await serve.ended).toMatchObject({ code: 0 });
  const rows = new Map(readFile(database).rows.map((row) => [row.number, row]));
  const atGateway = gatewayRequests(sandbox, { request: 0, call: 0 });
  for (const { number, bill } of atGateway) {
    expect(rows.get(number), number).toMatchObject({ state: "posted", source: "reported", cost: bill?.cost });
  }
  expect(rows.size).toBe(atGateway.length);
  expect(atGateway.map(({ number }) => number).filter((number) => refused.includes(number))).toEqual([]);
  expect(await runFarebox(["verify", "--database", database])).toMatchObject({ code: 0 });
}

/** Starts and ends a fault while a stream runs, and expects recovery without a restart. */
async function expectRecovery(
  scene: Scene,
  trouble: { readonly begin: () => void; readonly end: () => void; readonly reason: RegExp; readonly hidden?: boolean },
): Promise<void> {
  const { serve, sandbox, database } = scene;
  const before = await chat(scene, "tokens:5");
  expect(before.response.status).toBe(200);
  await before.response.text();
  const running = chat(scene, "tokens:60+slow:50", { stream: true, stream_options: { include_usage: true } });
  await sandbox.waitFor(({ requests }) => requests.some(({ deltas }) => deltas > 0));
  trouble.begin();
  const refused: string[] = [];
  try {
    for (let times = 0; times < 5; times++) refused.push(await untilRefused(scene));
    await untilReady(scene, false);
    await untilChangeRefused(scene);
    await serve.printed(trouble.reason);
    // The stream completes for its client; its settlement waits for the ledger.
    const { number, response } = await running;
    const stateInFile = () => readFile(database).rows.find((row) => row.number === number)?.state;
    // On a very busy machine, the stream may end before the trouble begins.
    const isTested = trouble.hidden !== true && stateInFile() === "pending";
    expect(await response.text()).toMatch(/data: \[DONE\]\s*$/);
    if (isTested) expect(stateInFile()).toBe("pending");
  } finally {
    trouble.end();
  }
  await untilReady(scene, true);
  await serve.printed(/"level":40.*the ledger can be written again/);
  const after = await chat(scene, "tokens:5");
  expect(after.response.status).toBe(200);
  await after.response.text();
  await expectSettled(scene, refused);
}

/** Keeps the reusable part of SQLite's log full, which has room even on a full disk, until the result is disposed of. */
function leaveNoRoomInLog(database: string, disk: SmallDisk): Disposable {
  const file = new Database(database);
  try {
    file.pragma("wal_checkpoint(TRUNCATE)");
  } catch (error) {
    // The full disk prevents the checkpoint; then SQLite does not reuse the log either.
    if (!(error instanceof Database.SqliteError)) throw error;
  }
  disk.fill();
  // A failed transaction may have left room at the end of the log.
  file.pragma("wal_autocheckpoint = 0");
  const version = String(file.pragma("user_version", { simple: true }));
  expect(() => {
    for (;;) file.pragma(`user_version = ${version}`);
  }).toThrow(/full|disk I\/O error/);
  return { [Symbol.dispose]: () => file.close() };
}

const fullDisk =
  /"level":50.*"reason":"(database or disk is full \(SQLITE_FULL\)|disk I\/O error \(SQLITE_IOERR\w*\))".*the ledger cannot be written/;

describe.concurrent("a full disk", () => {
  it.skipIf(skipIfImpossible("a full disk of its own", noMount))(
    "loses nothing acknowledged, and the proxy recovers when there is room",
    async () => {
      using disk = mountSmallDisk(diskBytes);
      await using scene = await startScene(disk.path);
      await expectRecovery(scene, { begin: () => disk.fill(), end: () => disk.free(), reason: fullDisk });
    },
  );

  it.skipIf(skipIfImpossible("a quota for the ledger's files", noLimit))(
    "loses nothing acknowledged if a quota is the cause",
    async () => {
      await using folder = await temporaryFolder();
      await using scene = await startScene(folder.path);
      const { pid } = scene.serve;
      await expectRecovery(scene, {
        begin: () => limitFileSize(pid, 1),
        end: () => limitFileSize(pid, "unlimited"),
        reason: fullDisk,
      });
    },
  );

  it.skipIf(skipIfImpossible("a crash on a full disk", noMount))(
    "makes the start after a crash fail with the reason until there is room",
    async () => {
      using disk = mountSmallDisk(diskBytes);
      await using scene = await startScene(disk.path);
      const { serve, sandbox, database } = scene;
      const running = chat(scene, "endless:20", { stream: true });
      await sandbox.waitFor(({ requests }) => requests.some(({ deltas }) => deltas > 0));
      disk.fill();
      await untilRefused(scene);
      serve.signal("SIGKILL");
      await serve.ended;
      await expect(running.then(({ response }) => response.text())).rejects.toThrow();
      using _fullLog = leaveNoRoomInLog(database, disk);

      const env = { FAREBOX_GATEWAY_URL: sandbox.url, FAREBOX_GATEWAY_API_KEY: sandbox.apiKey };
      const refused = await runFarebox(["serve", "--database", database, "--port", "0"], { env });
      expect(refused).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(/^farebox: the ledger at \S+ cannot be (opened|written): .*full.*\n$/m),
      });
      const command = await runFarebox(["keys", "create", "alice", "--database", database]);
      expect(command).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(/^farebox: the ledger at \S+ cannot be (opened|written): .*full.*\n$/),
      });
      disk.free();
      await using again = await startServe({ database, gateway: sandbox });
      await again.printed(/"recovered":\d+/);
      const charges = readFile(database).rows;
      expect(charges.filter(({ state }) => state === "pending")).toEqual([]);
      expect(charges.filter(({ source, reason }) => source === "assumed" && reason === "crash").length).toBeGreaterThan(
        0,
      );
      expect(await runFarebox(["verify", "--database", database])).toMatchObject({ code: 0 });
    },
  );
});

describe.concurrent("a read-only ledger", () => {
  it.skipIf(skipIfImpossible("immutable files", noImmutable))(
    "loses nothing acknowledged, and the proxy recovers when the files are writable",
    async () => {
      await using folder = await temporaryFolder();
      await using scene = await startScene(folder.path);
      const files = ["", "-wal"].map((suffix) => `${scene.database}${suffix}`);
      await expectRecovery(scene, {
        begin: () => makeImmutable(files),
        end: () => makeMutable(files),
        reason: /"level":50.*the ledger cannot be written/,
      });
    },
  );

  it.skipIf(skipIfImpossible("a disk that is mounted for reading", noMount))(
    "prevents a start and commands, with the reason",
    async () => {
      using disk = mountSmallDisk(diskBytes);
      await using scene = await startScene(disk.path);
      const { serve, sandbox, database } = scene;
      expect((await chat(scene, "tokens:5")).response.status).toBe(200);
      serve.signal("SIGTERM");
      await serve.ended;
      disk.remount("ro");
      const env = { FAREBOX_GATEWAY_URL: sandbox.url, FAREBOX_GATEWAY_API_KEY: sandbox.apiKey };
      const refused = await runFarebox(["serve", "--database", database, "--port", "0"], { env });
      const why = expect.stringMatching(
        /^farebox: the ledger at \S+ cannot be opened: .*: \S+ cannot be written \(EROFS\)\n$/,
      );
      expect(refused).toMatchObject({ code: 2, stdout: "", stderr: why });
      expect(await runFarebox(["charges", "--database", database])).toMatchObject({ code: 2, stdout: "", stderr: why });
      disk.remount("rw");
      await using again = await startServe({ database, gateway: sandbox });
      expect((await fetch(`${again.url}/readyz`)).status).toBe(200);
    },
  );
});

describe.concurrent("a running proxy whose ledger file disappears", () => {
  const suffixes = ["", "-wal", "-shm"];
  const isReady = async ({ serve }: Scene) => (await fetch(`${serve.url}/readyz`)).status === 200;

  it("recovers when the file is back", async () => {
    await using folder = await temporaryFolder();
    await using scene = await startScene(folder.path);
    const { database } = scene;
    await expectRecovery(scene, {
      begin: () => renameSync(database, `${database}.away`),
      end: () => renameSync(`${database}.away`, database),
      reason: /"level":50.*farebox\.db was deleted or moved away".*the ledger cannot be written/,
      hidden: true,
    });
  });

  it.each<[string, (database: string) => void, RegExp]>([
    [
      "deleted",
      (database) => suffixes.forEach((suffix) => rmSync(database + suffix)),
      /farebox\.db was deleted or moved away/,
    ],
    [
      "replaced by an older one",
      (database) => renameSync(`${database}.older`, database),
      /another file replaced \S+farebox\.db/,
    ],
    ["without its log", (database) => rmSync(`${database}-wal`), /farebox\.db-wal was deleted or moved away/],
  ])(
    "forwards nothing more, and saves what was acknowledged in a copy named in the log (%s)",
    async (_, takeAway, reason) => {
      await using folder = await temporaryFolder();
      await using scene = await startScene(folder.path);
      const { serve, sandbox, database } = scene;
      await runFarebox(["db", "backup", `${database}.older`, "--database", database]);
      const acknowledged: string[] = [];
      for (let times = 0; times < 5; times++) {
        const { number, response } = await chat(scene, "tokens:5");
        expect(response.status).toBe(200);
        await response.text();
        acknowledged.push(number);
      }
      const running = chat(scene, "tokens:60+slow:10", { stream: true, stream_options: { include_usage: true } });
      await sandbox.waitFor(({ requests }) => requests.some(({ deltas }) => deltas > 0));
      takeAway(database);
      const refused = await chat(scene, "tokens:5");
      expect(refused.response.status, "the first request afterwards").toBe(503);
      expect(await isReady(scene)).toBe(false);
      await serve.printed(reason);
      const [, copy = ""] = await serve.printed(/"copy":"([^"]+)".*put the file or this copy back/);
      expect(await (await running).response.text()).toMatch(/data: \[DONE\]\s*$/);
      expect(gatewayRequests(sandbox, { request: 0, call: 0 }).map(({ number }) => number)).not.toContain(
        refused.number,
      );
      serve.signal("SIGTERM");
      expect(await serve.ended).toMatchObject({ code: 0 });

      for (const suffix of suffixes) rmSync(database + suffix, { force: true });
      renameSync(copy, database);
      await using again = await startServe({ database, gateway: sandbox, env });
      await again.printed(/"recovered":1\b/);
      const rows = new Map(readFile(database).rows.map((row) => [row.number, row]));
      const late = (await running).number;
      expect([...rows.keys()].toSorted()).toEqual([...acknowledged, late].toSorted());
      for (const { number, bill } of gatewayRequests(sandbox, { request: 0, call: 0 })) {
        if (number === late)
          expect(rows.get(number)).toMatchObject({ state: "posted", source: "assumed", reason: "crash" });
        else expect(rows.get(number)).toMatchObject({ state: "posted", source: "reported", cost: bill?.cost });
      }
      expect(await runFarebox(["verify", "--database", database])).toMatchObject({ code: 0 });
    },
  );

  it("stops writing while its lock file is missing", async () => {
    await using folder = await temporaryFolder();
    await using scene = await startScene(folder.path);
    const { serve, database } = scene;
    const lock = `${database}-serve`;
    renameSync(lock, `${lock}.away`);
    expect((await chat(scene, "tokens:5")).response.status).toBe(503);
    expect(await isReady(scene)).toBe(false);
    await serve.printed(/farebox\.db-serve was deleted or moved away/);
    renameSync(`${lock}.away`, lock);
    expect((await chat(scene, "tokens:5")).response.status).toBe(200);
  });
});
