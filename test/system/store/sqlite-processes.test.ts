// @module-tag races
import { existsSync, linkSync, mkdirSync, renameSync } from "node:fs";
import { noon, openStore, tempFolder, utc } from "../../support/ledger-fixtures.ts";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { backUp } from "../../../src/ledger/sqlite/backup.ts";
import { openSqlite } from "../../../src/ledger/sqlite/open.ts";
import { inspectFile } from "../../../src/ledger/sqlite/inspect.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { runFarebox } from "../../support/farebox-process.ts";

const clock = systemClock();
const child = fileURLToPath(new URL("../../support/ledger-child.ts", import.meta.url));

const serve = (path: string) => openStore({ path, calendar: utc, clock, access: "serve" });

async function startChild(
  path: string,
  lanes: number,
): Promise<{ process: ChildProcess; lines: AsyncIterableIterator<string> }> {
  const started = spawn(process.execPath, [child, path, String(lanes)], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]() as AsyncIterableIterator<string>;
  expect((await lines.next()).value).toBe("open");
  return { process: started, lines };
}

async function kill(started: ChildProcess): Promise<void> {
  const ended = once(started, "exit");
  started.kill("SIGKILL");
  await ended;
}

describe("opening a database", () => {
  it.each([
    ["a hard link", linkSync],
    ["the name that it was moved to", renameSync],
  ])("is refused through %s while another process has it open", async (_way, addName) => {
    using folder = tempFolder();
    using owned = new DisposableStack();
    const { process: running } = await startChild(folder.database, 0);
    owned.defer(() => running.kill("SIGKILL"));
    mkdirSync(join(folder.path, "other"));
    const other = join(folder.path, "other", "ledger.db");
    addName(folder.database, other);
    const refused = {
      ok: false,
      failure: {
        kind: "unusable",
        message: expect.stringContaining("another process has the file open under another name"),
      },
    };
    for (const access of ["serve", "command", "read"] as const) {
      expect(await openSqlite({ path: other, calendar: utc, clock, access })).toEqual(refused);
    }
    expect(await inspectFile(other)).toEqual(refused);
    expect(await backUp({ path: other, file: join(folder.path, "copy.db"), calendar: utc })).toEqual(refused);
    expect(existsSync(`${other}-serve`)).toBe(false);
    await kill(running);
    await using store = await serve(other);
    expect(await store.ledger.verify()).toMatchObject({ differences: [] });
  });

  it("is refused to a serve of another process through a hard link until the first serve has ended", async () => {
    using folder = tempFolder();
    const link = join(folder.path, "link.db");
    {
      await using first = await serve(folder.database);
      linkSync(folder.database, link);
      const second = await runFarebox(["serve", "--port", "0"], {
        env: { FAREBOX_DATABASE: link, FAREBOX_GATEWAY_URL: "http://127.0.0.1:9", FAREBOX_GATEWAY_API_KEY: "sk-none" },
      });
      expect(second).toMatchObject({ code: 2, stdout: "" });
      expect(second.stderr).toMatch(
        new RegExp(
          `^farebox: the ledger at ${link} cannot be opened: another process has the file open under another name .+\n$`,
        ),
      );
      expect(await runFarebox(["keys", "create", "linked", "--database", link])).toMatchObject({ code: 2, stdout: "" });
      expect(await runFarebox(["keys", "create", "beside", "--database", folder.database])).toMatchObject({ code: 0 });
      expect(await first.ledger.verify()).toMatchObject({ differences: [] });
    }
    await using third = await serve(link);
    expect(await third.keys.find("linked")).toBeUndefined();
    expect(await third.ledger.verify()).toMatchObject({ differences: [] });
  });

  it("works for several processes at once, even if they create it", async () => {
    using folder = tempFolder();
    const names = ["a", "b", "c", "d"];
    const created = await Promise.all(
      names.map((name) => runFarebox(["keys", "create", name, "--database", folder.database])),
    );
    expect(created.map(({ code, stderr }) => [code, stderr.replace(/^created the ledger.*\n/, "")])).toEqual(
      names.map(() => [0, ""]),
    );
  });

  it("is refused to a second serve until the first process is killed", async () => {
    using folder = tempFolder();
    const { process: running } = await startChild(folder.database, 0);
    expect(await openSqlite({ path: folder.database, calendar: utc, clock, access: "serve" })).toEqual({
      ok: false,
      failure: { kind: "in_use" },
    });
    await kill(running);
    await using store = await serve(folder.database);
    expect(await store.ledger.verify()).toMatchObject({ differences: [] });
  });
});

describe("a killed process", () => {
  it("loses nothing that it acknowledged, and recovery posts its pending holds", async () => {
    using folder = tempFolder();
    const { process: running, lines } = await startChild(folder.database, 16);
    const acknowledged: string[] = [];
    for await (const line of lines) {
      acknowledged.push(line);
      if (acknowledged.length === 3000) break;
    }
    await kill(running);
    await using store = await serve(folder.database);
    const orphans = (await store.ledger.pending()).count;
    expect(await store.ledger.recover(noon)).toBe(orphans);
    for (const line of acknowledged) {
      const [what, id] = line.split(" ");
      const charge = await store.ledger.charge(id ?? "");
      expect(charge?.state).toBe("posted");
      if (what === "posted") expect(charge?.source).toBe("reported");
    }
    expect(await store.ledger.pending()).toEqual({ count: 0, oldestAt: null });
    const verification = await store.ledger.verify();
    expect(verification.differences).toEqual([]);
    expect(verification.charges).toBeGreaterThanOrEqual(1500);
  });
});
