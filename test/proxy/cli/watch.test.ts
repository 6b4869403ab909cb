import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { chartBar, limitBar } from "../../../src/cli/bars.ts";
import type { Io } from "../../../src/cli/io.ts";
import { progress } from "../../../src/cli/progress.ts";
import { printTable } from "../../../src/cli/table.ts";
import { usd } from "../../../src/core/money.ts";
import { endAt, holdOf, noon, posting } from "../../support/ledger-fixtures.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

/** Two requests, one of them still running, and a budget on who makes them. */
async function filled(h: Harness): Promise<void> {
  await h.run("keys", "create", "alice");
  await h.run("budgets", "set", "key:alice", "1", "--per", "1d");
  const {
    keys: [alice],
  } = await h.json<{ keys: { id: string }[] }>("keys", "list");
  const key = alice?.id ?? "";
  await using store = await h.open();
  await store.ledger.hold(holdOf("done", usd("0.10"), { at: noon - 60_000, caller: { key, team: null } }));
  await store.ledger.post("done", posting(100_000, 25_000), endAt(noon - 59_000));
  await store.ledger.hold(holdOf("runs", usd("0.30"), { at: noon - 1_000, caller: { key, team: null } }));
}

/** So many looks, then the end; what was drawn each time. */
function looks(
  h: Harness,
  count: number,
  between: (index: number) => Promise<void> = async () => {},
  size = { columns: 110, rows: 24 },
): string[][] {
  const frames: string[][] = [];
  let looked = 0;
  h.watching = {
    size: () => size,
    draw: (lines) => void frames.push([...lines]),
    async wait() {
      looked++;
      if (looked >= count) return false;
      await between(looked);
      return true;
    },
    async [Symbol.asyncDispose]() {},
  };
  return frames;
}

describe("watch", () => {
  it("prints a line for each request where it is no terminal, and one more when it ends", async () => {
    using h = harness();
    await filled(h);
    looks(h, 2, async () => {
      await using store = await h.open();
      await store.ledger.post("runs", posting(1_000, 0), endAt(noon));
    });
    const ran = await h.run("watch");
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout.split("\n").map((line) => line.split("\t").slice(1, 8).join(" "))).toEqual([
      "done posted alice model-a 100000 25000 0.20",
      "runs pending alice model-a 0 0 -",
      "runs posted alice model-a 1000 0 0.001",
      "",
    ]);
  });

  it("prints JSON lines of the charges, of those that are asked for", async () => {
    using h = harness();
    await filled(h);
    const ran = await h.run("watch", "--json", "--key", "alice", "--model", "model-a");
    const lines = ran.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as object);
    expect(lines).toMatchObject([
      { request_id: "done", state: "posted", cost_usd: "0.20" },
      { request_id: "runs", state: "pending", hold_usd: "0.30" },
    ]);
    expect((await h.run("watch", "--json", "--model", "model-b")).stdout).toBe("");
    expect(await h.run("watch", "--key", "stranger")).toMatchObject({
      code: 2,
      stderr: 'farebox: there is no key "stranger"\n',
    });
  });

  it("draws spending, budgets and requests on a terminal, as wide and as high as it is", async () => {
    using h = harness();
    await filled(h);
    h.isTTY = true;
    for (const size of [
      { columns: 110, rows: 24 },
      { columns: 60, rows: 9 },
      { columns: 20, rows: 4 },
    ]) {
      const frames = looks(h, 1, undefined, size);
      expect((await h.run("watch")).code).toBe(0);
      const plain = (frames[0] ?? []).map(stripVTControlCharacters);
      expect(plain.length).toBeLessThanOrEqual(size.rows);
      expect(plain.filter((line) => line.length > size.columns)).toEqual([]);
      if (size.columns !== 110) continue;
      expect(plain[0]).toMatch(/^farebox watch .*12:00:00 {2}q quits$/);
      expect(plain[1]).toMatch(
        /^today USD 0\.20 \(1 requests\) {3}month USD 0\.20 {3}by its end about USD \d.* 1 running$/,
      );
      expect(plain.find((line) => line.startsWith("key:alice 1d"))).toMatch(
        /#{6}={9}-{15} {8}0\.20 {8}0\.30 {8}1\.00 {2}50%$/,
      );
      expect(plain.slice(-2).map((line) => line.split(/ {2,}/).slice(0, 5))).toEqual([
        ["11:59:59", "running", "alice", "model-a", "-"],
        ["11:59:00", "posted", "alice", "model-a", "0.20"],
      ]);
    }
  });

  it("draws without colour under NO_COLOR", async () => {
    using h = harness();
    await filled(h);
    h.isTTY = true;
    const frames = looks(h, 1);
    await h.run("watch");
    expect(frames.flat().some((line) => line.includes("\x1b["))).toBe(true);
    h.env["NO_COLOR"] = "1";
    const plain = looks(h, 1);
    await h.run("watch");
    expect(plain.flat().some((line) => line.includes("\x1b["))).toBe(false);
  });

  it("says what is wrong where there is no ledger, and makes none", async () => {
    using h = harness();
    expect(await h.run("watch")).toMatchObject({ code: 2, stderr: expect.stringContaining("there is no ledger") });
  });
});

/** A real terminal: `script` of Linux runs a command on a pseudo-terminal and passes on what it shows. */

describe("bars", () => {
  const io = (more: Partial<Io> = {}) => {
    const written = { out: "", err: "" };
    const made: Io = {
      stdout: { write: (text) => (written.out += text) },
      stderr: { write: (text) => (written.err += text) },
      isTTY: true,
      columns: 60,
      env: { LANG: "C.UTF-8", NO_COLOR: "1" },
      ...more,
    };
    return { io: made, written };
  };

  it("are as long as their share of the longest, to an eighth", () => {
    expect(
      [1, 0.5, 0.3125, 0, -1].map((part) =>
        chartBar((usd(String(Math.abs(part))) * (part < 0 ? -1n : 1n)) as never, usd("1"), 4, true),
      ),
    ).toEqual(["████", "██", "█▎", "", ""]);
    expect(chartBar(usd("0.6"), usd("1"), 5, false)).toBe("###");
  });

  it("show what is spent and held of a limit, full beyond it", () => {
    const of = (spent: string, held: string, limit: string) =>
      Object.values(limitBar({ spent: usd(spent), held: usd(held), limit: usd(limit) }, 8, false)).join("");
    expect([of("2", "2", "8"), of("9", "2", "8"), of("6", "9", "8"), of("0", "0", "0"), of("1", "0", "0")]).toEqual([
      "##==----",
      "########",
      "######==",
      "--------",
      "########",
    ]);
  });

  it("follow a table where there is room, and are not written to a pipe", () => {
    const rows = [
      ["a", "2.00"],
      ["b", "1.00"],
      ["total", "3.00"],
    ];
    const columns = [{ title: "model" }, { title: "cost", align: "right" as const }];
    const terminal = io();
    printTable(terminal.io, columns, rows, [usd("2"), usd("1")]);
    expect(terminal.written.out).toBe(
      `model  cost\na      2.00  ${"█".repeat(30)}\nb      1.00  ${"█".repeat(15)}\ntotal  3.00\n`,
    );
    const narrow = io({ columns: 15 });
    printTable(narrow.io, columns, rows, [usd("2"), usd("1")]);
    expect(narrow.written.out).not.toContain("█");
    const pipe = io({ isTTY: false });
    printTable(pipe.io, columns, rows, [usd("2"), usd("1")]);
    expect(pipe.written.out).toBe("model\tcost\na\t2.00\nb\t1.00\ntotal\t3.00\n");
  });

  it("of progress are for a terminal on stderr alone", () => {
    const piped = io({ isTTY: false, isErrorTTY: true });
    const bar = progress(piped.io, "checked");
    bar.show(0.5);
    bar.end();
    expect(piped.written.err).toMatch(/^\r50% checked \[#{15}-{15}\]\r +\r$/);
    const logged = io({ isTTY: true, isErrorTTY: false });
    progress(logged.io, "checked").show(0.5);
    expect(logged.written.err).toBe("");
  });

  it("are coloured where FORCE_COLOR asks for it, as Node does it", () => {
    const columns = [{ title: "model" }];
    const forced = io({ env: { FORCE_COLOR: "1" } });
    printTable(forced.io, columns, [["a"]]);
    expect(forced.written.out).toContain("\x1b[1m");
    const refused = io({ env: { FORCE_COLOR: "0" } });
    printTable(refused.io, columns, [["a"]]);
    expect(refused.written.out).not.toContain("\x1b[");
  });
});
