import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { chartBar, limitBar } from "../../../src/cli/bars.ts";
import type { Io } from "../../../src/cli/io.ts";
import { progress } from "../../../src/cli/progress.ts";
import { fieldColumns, printRows, right } from "../../../src/cli/table.ts";
import { usd } from "../../../src/core/money.ts";
import { assumed, endAt, holdOf, noon, posting } from "../../support/ledger-fixtures.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

/** Creates a settled request, a running request, and a budget of their key. */
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

/** Ends the command after this many refreshes. Returns the frames that were drawn. */
function framesOf(
  h: Harness,
  count: number,
  between: (index: number) => Promise<void> = async () => {},
  size = { columns: 110, rows: 24 },
  keys: readonly string[] = [],
): string[][] {
  const frames: string[][] = [];
  let refreshes = 0;
  h.watching = {
    size: () => size,
    draw: (lines) => void frames.push([...lines]),
    typed: () => keys[refreshes - 1] ?? "",
    async wait() {
      refreshes++;
      if (refreshes >= count) return false;
      await between(refreshes);
      return true;
    },
    async [Symbol.asyncDispose]() {},
  };
  return frames;
}

describe("watch", () => {
  it("prints a line for each request if the output is not a terminal, and another when the request ends", async () => {
    using h = harness();
    await filled(h);
    framesOf(h, 2, async () => {
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

  it("prints charges as JSON lines, filtered by key and model", async () => {
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

  it("refuses a team that does not exist", async () => {
    using h = harness();
    await h.run("keys", "create", "alice", "--team", "research");
    expect(await h.run("watch", "--team", "reserach")).toMatchObject({
      code: 2,
      stderr: 'farebox: there is no team "reserach"; did you mean "research"?\n',
    });
  });

  it("draws spending, budgets and requests within the size of a terminal", async () => {
    using h = harness();
    await filled(h);
    h.isTTY = true;
    for (const size of [
      { columns: 110, rows: 24 },
      { columns: 60, rows: 9 },
      { columns: 20, rows: 4 },
    ]) {
      const frames = framesOf(h, 1, undefined, size);
      expect((await h.run("watch")).code).toBe(0);
      const plain = (frames[0] ?? []).map(stripVTControlCharacters);
      expect(plain.length).toBeLessThanOrEqual(size.rows);
      expect(plain.filter((line) => line.length > size.columns)).toEqual([]);
      if (size.columns !== 110) continue;
      expect(plain[0]).toMatch(/^farebox watch .*12:00:00$/);
      expect(plain[1]).toMatch(
        /^today USD 0\.20 \(1 request\) {3}month USD 0\.20 {3}month end about USD \d.* 1 running {3}0 refused today$/,
      );
      expect(plain.find((line) => line.startsWith("key:alice 1d"))).toMatch(
        / {2}0\.20 {2}0\.30 {3}1\.00 {3}50% {2}#{6}={9}-{15}$/,
      );
      expect(plain.at(-1)).toBe("q quit   s sort: time   p pause   / filter");
      expect(plain.filter((line) => line.startsWith("11:5")).map((line) => line.split(/ {2,}/).slice(0, 5))).toEqual([
        ["11:59:59", "running", "alice", "model-a", "-"],
        ["11:59:00", "posted", "alice", "model-a", "0.20"],
      ]);
    }
  });

  it("shows - as the cost of a request without a price", async () => {
    using h = harness();
    await using store = await h.open();
    await store.ledger.hold(holdOf("done", null, { at: noon - 60_000, model: "no-such-model" }));
    await store.ledger.post("done", assumed(null), endAt(noon - 59_000));
    h.isTTY = true;
    const frames = framesOf(h, 1);
    expect((await h.run("watch")).code).toBe(0);
    const row = (frames[0] ?? []).map(stripVTControlCharacters).find((line) => line.startsWith("11:59:00"));
    expect(row?.split(/ {2,}/).slice(1, 5)).toEqual(["posted", "k-alice", "no-such-model", "-"]);
  });

  it("truncates nothing at 80 columns, and shows how far a soft budget is exceeded", async () => {
    using h = harness();
    await h.run("keys", "create", "nightly-batch", "--team", "research");
    await h.run("budgets", "set", "key:nightly-batch", "0.08", "--per", "1mo", "--soft");
    await h.run("budgets", "set", "each-key:research", "12500", "--per", "1w");
    const { keys } = await h.json<{ keys: { id: string }[] }>("keys", "list");
    const key = keys[0]?.id ?? "";
    const at = { caller: { key, team: "research" }, model: "gpt-4o-mini-2024-07-18" };
    await using store = await h.open();
    for (let index = 0; index < 12; index++) {
      const id = `r${index}`;
      await store.ledger.hold(holdOf(id, usd("0.10"), { ...at, at: noon - 60_000 - index }));
      await store.ledger.post(id, posting(100_000, 25_000), endAt(noon - 59_000));
    }
    await store[Symbol.asyncDispose]();
    h.isTTY = true;
    const frames = framesOf(h, 1, undefined, { columns: 80, rows: 24 });
    await h.run("watch");
    const plain = (frames[0] ?? []).map(stripVTControlCharacters);
    expect(plain.filter((line) => line.length > 80 || line.includes("…"))).toEqual([]);
    expect(plain).toHaveLength(24);
    expect(plain.join("\n")).toMatch(/^key:nightly-batch 1mo soft +2\.40 +0\.00 +0\.08 +3000% {2}#+$/m);
    expect(plain.join("\n")).toMatch(
      /^each-key:research \(key=nightly-batch\) 1w +2\.40 +0\.00 +12500\.00 +0% {2}-+$/m,
    );
    expect(plain.join("\n")).toMatch(
      /^\d\d:\d\d:\d\d {2}posted +nightly-batch {2}gpt-4o-mini-2024-07-18 +0\.20 +100000/m,
    );
  });

  it("draws the bar of a raised budget within its raised limit", async () => {
    using h = harness();
    await filled(h);
    await h.run("budgets", "set", "key:alice", "0.40", "--per", "1d");
    h.isTTY = true;
    h.env["FORCE_COLOR"] = "1";
    const bar = async () => {
      const frames = framesOf(h, 1);
      await h.run("watch");
      return (frames[0] ?? []).find((line) => stripVTControlCharacters(line).startsWith("key:alice 1d")) ?? "";
    };
    const exhausted = await bar();
    expect(stripVTControlCharacters(exhausted)).toMatch(/ 0\.40 +125% {2}#+=*$/);
    expect(exhausted).toContain("\x1b[31m");
    await h.run("budgets", "raise", "key:alice", "0.60", "--why", "a demo");
    const raised = await bar();
    expect(stripVTControlCharacters(raised)).toMatch(/ 1\.00 +50% {2}#+=+-+$/);
    expect(raised).not.toContain("\x1b[31m");
  });

  it("sorts, filters, pauses and quits on keys", async () => {
    using h = harness();
    await filled(h);
    h.isTTY = true;
    // Keys, with what the screen shows after each: its last line, and the states of the requests in order.
    const keys = ["s", "s", "s", "s", "/", "RUN", "\r", "p", "", "\u001b[A", "\u001b", "p", "", "q"];
    const frames = framesOf(
      h,
      99,
      async (index) => {
        // A request ends while the screen is paused.
        if (keys[index - 1] !== "" || index > 10) return;
        await using store = await h.open();
        await store.ledger.post("runs", posting(1_000, 0), endAt(noon));
      },
      { columns: 100, rows: 24 },
      keys,
    );
    expect((await h.run("watch")).code).toBe(0);
    const shown = frames.map((frame) => {
      const plain = frame.map(stripVTControlCharacters);
      const states = plain.filter((line) => /^\d\d:/.test(line)).map((line) => line.split(/ +/)[1]);
      return [plain.at(-1), ...states, ...(/ paused /.test(plain[0] ?? "") ? ["(paused)"] : [])];
    });
    expect(shown).toEqual([
      ["q quit   s sort: time   p pause   / filter", "running", "posted"],
      ["q quit   s sort: cost   p pause   / filter", "posted", "running"],
      ["q quit   s sort: duration   p pause   / filter", "posted", "running"],
      ["q quit   s sort: tokens   p pause   / filter", "posted", "running"],
      ["q quit   s sort: time   p pause   / filter", "running", "posted"],
      ["Filter: _   Enter keeps it, Esc removes it", "running", "posted"],
      ["Filter: RUN_   Enter keeps it, Esc removes it", "running"],
      ["q quit   s sort: time   p pause   / filter: RUN", "running"],
      ["q quit   s sort: time   p continue   / filter: RUN", "running", "(paused)"],
      ["q quit   s sort: time   p continue   / filter: RUN", "running", "(paused)"],
      ["q quit   s sort: time   p continue   / filter: RUN", "running", "(paused)"],
      ["q quit   s sort: time   p continue   / filter", "running", "posted", "(paused)"],
      ["q quit   s sort: time   p pause   / filter", "running", "posted"],
      ["q quit   s sort: time   p pause   / filter", "posted", "posted"],
    ]);
  });

  it("shows refused requests and today's number of refusals", async () => {
    using h = harness();
    await filled(h);
    const { keys } = await h.json<{ keys: { id: string }[] }>("keys", "list");
    const key = keys[0]?.id ?? "";
    const minute = noon - 120_000;
    const row = { minute, key, team: null, route: "/v1/chat/completions", model: "model-a", needed: null };
    await using store = await h.open();
    await store.refusals.add([
      {
        ...row,
        code: "budget_exceeded",
        scope: `key:${key}`,
        period: "1d",
        subject: null,
        count: 12,
        firstAt: minute,
        lastAt: minute + 30_000,
      },
      {
        ...row,
        key: "",
        model: null,
        code: "invalid_api_key",
        scope: null,
        period: null,
        subject: null,
        count: 1,
        firstAt: minute,
        lastAt: minute,
      },
    ]);
    await store[Symbol.asyncDispose]();
    h.isTTY = true;
    const screen = async (columns: number, ...args: string[]) => {
      const frames = framesOf(h, 1, undefined, { columns, rows: 24 });
      expect((await h.run("watch", ...args)).code).toBe(0);
      return (frames[0] ?? []).map(stripVTControlCharacters);
    };
    const wide = await screen(80);
    expect(wide.slice(1, 3).join("   ")).toMatch(/ 13 refused today/);
    expect(wide.filter((line) => line.includes("refused  "))).toEqual([
      "11:58:30  refused  alice  model-a  budget_exceeded key:alice 1d, 12 times",
      "11:58:00  refused  -      -        invalid_api_key",
    ]);
    const narrow = (await screen(65)).find((line) => line.includes("budget_exceeded"));
    expect(narrow).toBe("11:58:30  refused  alice  model-a  budget_exceeded, 12 times");
    expect((await screen(80, "--key", "alice")).filter((line) => line.includes("refused  "))).toHaveLength(1);
  });

  it("draws without color under NO_COLOR", async () => {
    using h = harness();
    await filled(h);
    h.isTTY = true;
    const frames = framesOf(h, 1);
    await h.run("watch");
    expect(frames.flat().join("\n")).toContain("\x1b[");
    h.env["NO_COLOR"] = "1";
    const plain = framesOf(h, 1);
    await h.run("watch");
    expect(plain).toHaveLength(frames.length);
    expect(plain.flat().filter((line) => line.includes("\x1b["))).toEqual([]);
  });

  it("reports a missing ledger and does not create it", async () => {
    using h = harness();
    expect(await h.run("watch")).toMatchObject({ code: 2, stderr: expect.stringContaining("there is no ledger") });
  });
});

describe("output on a terminal", () => {
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

  it("has bars as long as their share of the longest, to an eighth of a character", () => {
    expect(
      [1, 0.5, 0.3125, 0, -1].map((part) =>
        chartBar((usd(String(Math.abs(part))) * (part < 0 ? -1n : 1n)) as never, usd("1"), 4, true),
      ),
    ).toEqual(["████", "██", "█▎", "", ""]);
    expect(chartBar(usd("0.6"), usd("1"), 5, false)).toBe("###");
  });

  it("has bars of spent and held amounts within a limit, which are full beyond it", () => {
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

  it("has bars after a table if there is room; a pipe has none", () => {
    const rows = [
      ["a", "2.00"],
      ["b", "1.00"],
      ["total", "3.00"],
    ];
    const columns = {
      model: ([model = ""]: readonly string[]) => model,
      cost: right(([, cost = ""]: readonly string[]) => cost),
    };
    const terminal = io();
    printRows(terminal.io, rows, columns, [usd("2"), usd("1")]);
    expect(terminal.written.out).toBe(
      `model  cost\na      2.00  ${"█".repeat(30)}\nb      1.00  ${"█".repeat(15)}\ntotal  3.00\n`,
    );
    const narrow = io({ columns: 15 });
    printRows(narrow.io, rows, columns, [usd("2"), usd("1")]);
    expect(narrow.written.out).not.toContain("█");
    const pipe = io({ isTTY: false });
    printRows(pipe.io, rows, columns, [usd("2"), usd("1")]);
    expect(pipe.written.out).toBe("model\tcost\na\t2.00\nb\t1.00\ntotal\t3.00\n");
  });

  it("has a progress bar only if stderr is the terminal", () => {
    const piped = io({ isTTY: false, isErrorTTY: true });
    const bar = progress(piped.io, "checked");
    bar.show(0.5);
    bar.hide();
    expect(piped.written.err).toMatch(/^\r50% checked \[#{15}-{15}\]\r +\r$/);
    const logged = io({ isTTY: true, isErrorTTY: false });
    progress(logged.io, "checked").show(0.5);
    expect(logged.written.err).toBe("");
  });

  it("has colored tables according to FORCE_COLOR", () => {
    const columns = fieldColumns("model");
    const forced = io({ env: { FORCE_COLOR: "1" } });
    printRows(forced.io, [{ model: "a" }], columns);
    expect(forced.written.out).toContain("\x1b[1m");
    const refused = io({ env: { FORCE_COLOR: "0" } });
    printRows(refused.io, [{ model: "a" }], columns);
    expect(refused.written.out).not.toContain("\x1b[");
  });
});
