import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type Scope, keyScope } from "../../../src/core/scope.ts";
import { usd } from "../../../src/core/money.ts";
import type { Refusal } from "../../../src/core/refusals.ts";
import { startRefusalRecorder } from "../../../src/jobs/refusal-recorder.ts";
import { silentLog } from "../../support/captured-log.ts";
import type { RefusedRequest } from "../../../src/ports/events.ts";
import type { Log } from "../../../src/ports/log.ts";
import { refusalRowsMax, refusalsKeptMs, type RefusalPosition, type RefusalRow } from "../../../src/ports/refusals.ts";
import { budget, noon } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

const minuteMs = 60_000;
const keyOf = (id: string) => ({ id, name: `name of ${id}`, team: "red" });
const request = (more: Partial<RefusedRequest> = {}): RefusedRequest => ({
  key: keyOf("a1"),
  route: "/v1/chat/completions",
  model: "gpt-4o",
  ...more,
});

function exceeded(needed = "0.5", scope: Scope = keyScope("a1")): Refusal {
  const window = { budget: { ...budget(scope, "1d", "5"), id: "1" }, subject: "", start: noon, end: null };
  const shortage = {
    window: { ...window, spent: usd("5"), held: usd("0"), raises: [] },
    needed: usd(needed),
    exhausted: true,
  };
  return { code: "budget_exceeded", shortage, scopeName: "key:alice", subjectName: null, showsAmounts: true };
}

/** Creates a recorder with a ledger that can fail. */
function recording() {
  const clock = manualClock(noon);
  const ledger = {
    isWritable: true,
    excess: null as RefusalPosition | null,
    written: [] as RefusalRow[],
    removed: [] as RefusalPosition[],
  };
  const recorder = startRefusalRecorder({
    clock,
    log: silentLog,
    refusals: {
      async add(rows) {
        if (ledger.isWritable) ledger.written.push(...rows);
        return ledger.isWritable;
      },
      async remove(upTo) {
        ledger.removed.push(upTo);
        return ledger.removed.length === 1 ? 500 : 0;
      },
      excess: async (kept) => (kept === refusalRowsMax ? ledger.excess : null),
    },
  });
  const count = () => ledger.written.reduce((sum, row) => sum + row.count, 0);
  /** Advances the clock in steps of a second, and runs what is due. */
  const advance = async (ms: number) => {
    for (let left = ms; left > 0; left -= 1_000) {
      clock.advance(Math.min(left, 1_000));
      await setImmediate();
    }
  };
  return { clock, ledger, recorder, count, advance };
}

it("flushSoon writes once for all waiting readers, at most every 200 ms", async () => {
  const { recorder, clock, ledger } = recording();
  await using _ = recorder;
  const writes: number[] = [];
  for (let index = 0; index < 5; index++) {
    recorder.record({ refusal: exceeded(), request: request({ key: keyOf(`k${index}`) }) });
    const waiting = Promise.all([recorder.flushSoon(), recorder.flushSoon()]);
    for (let step = 0; step < 4; step++) {
      clock.advance(50);
      await setImmediate();
    }
    await waiting;
    writes.push(ledger.written.length);
    expect(clock.now() - noon).toBeGreaterThanOrEqual(200 * index);
  }
  expect(writes).toEqual([1, 2, 3, 4, 5]);
});

describe("the recorder of refusals", () => {
  it("merges equal refusals of a minute, and writes them every two seconds", async () => {
    const { ledger, recorder, advance } = recording();
    await using _recorder = recorder;
    for (const needed of ["0.5", "2", "1"]) {
      recorder.record({ refusal: exceeded(needed), request: request() });
      await advance(100);
    }
    expect(ledger.written).toEqual([]);
    await advance(2_000);
    const row = {
      minute: noon,
      key: "a1",
      team: "red",
      route: "/v1/chat/completions",
      model: "gpt-4o",
      code: "budget_exceeded",
      scope: "key:a1",
      period: "1d",
      subject: null,
      count: 3,
      firstAt: noon,
      lastAt: noon + 200,
      needed: usd("2"),
    };
    expect(ledger.written).toEqual([row]);
    recorder.record({ refusal: exceeded("0.25"), request: request() });
    await advance(2_000);
    const at = noon + 2_300;
    expect(ledger.written.slice(1)).toEqual([{ ...row, count: 1, firstAt: at, lastAt: at, needed: usd("0.25") }]);
    await advance(10_000);
    expect(ledger.written).toHaveLength(2);
  });

  it("records refusals by limits under the key's id, but no gateway failures and no requests to other paths", async () => {
    const { ledger, recorder } = recording();
    await using _recorder = recorder;
    const limit = { kind: "rpm", limit: 5, needed: null } as const;
    for (const scope of ["key:name of a1", "team:red"])
      recorder.record({
        refusal: { code: "rate_limit_exceeded", exceeded: { scope, ...limit }, retryAfterSeconds: 1 },
        request: request(),
      });
    recorder.record({
      refusal: { code: "concurrency_limit", exceeded: { family: "suno", limit: 5 }, retryAfterSeconds: 1 },
      request: request(),
    });
    recorder.record({ refusal: { code: "gateway_redirect" }, request: request() });
    recorder.record({ refusal: { code: "read_only" }, request: null });
    await recorder.flush();
    expect(ledger.written.map(({ code, scope, period, needed }) => [code, scope, period, needed])).toEqual([
      ["rate_limit_exceeded", "key:a1", null, null],
      ["rate_limit_exceeded", "team:red", null, null],
      ["concurrency_limit", null, null, null],
    ]);
  });

  it("keeps refusals while the ledger cannot be written, and writes them at the end", async () => {
    const { ledger, recorder, count, advance } = recording();
    ledger.isWritable = false;
    for (let n = 0; n < 5; n++) {
      recorder.record({ refusal: exceeded(), request: request() });
      await advance(40_000);
    }
    expect(ledger.written).toEqual([]);
    ledger.isWritable = true;
    await recorder[Symbol.asyncDispose]();
    expect(count()).toBe(5);
    expect(ledger.written.map(({ minute }) => (minute - noon) / minuteMs).toSorted()).toEqual([0, 1, 2]);
  });

  it("writes a flood from 10,000 keys in parts, and counts every refusal", async () => {
    const { ledger, recorder, count, advance } = recording();
    await using _recorder = recorder;
    for (let n = 0; n < 30_000; n++)
      recorder.record({ refusal: exceeded(), request: request({ key: keyOf(`k${n % 10_000}`) }) });
    await advance(2_000);
    expect(ledger.written).toHaveLength(1_024);
    await advance(18_000);
    expect(ledger.written).toHaveLength(10_000);
    expect(count()).toBe(30_000);
  });

  it("writes at most 20 rows per key and minute, and one more for each code", async () => {
    const { ledger, recorder, count } = recording();
    await using _recorder = recorder;
    for (let n = 0; n < 500; n++) {
      recorder.record({ refusal: exceeded(), request: request({ model: `model-${n}` }) });
      recorder.record({ refusal: { code: "balance_floor" }, request: request({ model: `model-${n}` }) });
    }
    await recorder.flush();
    expect(ledger.written).toHaveLength(22);
    expect(count()).toBe(1_000);
    expect(ledger.written.filter(({ route }) => route === "other")).toMatchObject([
      { key: "a1", team: "red", model: "other", code: "budget_exceeded", scope: null, period: null },
      { key: "a1", team: "red", model: "other", code: "balance_floor", scope: null, period: null },
    ]);
  });

  it("keeps at most 20,000 rows in memory, and counts further refusals for all keys together", async () => {
    const { ledger, recorder, count } = recording();
    await using _recorder = recorder;
    for (let n = 0; n < 50_000; n++)
      recorder.record({ refusal: exceeded(), request: request({ key: keyOf(`k${n}`) }) });
    await recorder.flush();
    expect(ledger.written).toHaveLength(20_001);
    expect(ledger.written.at(-1)).toMatchObject({ key: "", team: null, route: "other", count: 30_000 });
    expect(count()).toBe(50_000);
  });

  it("loses no refusal if the clock is set back", async () => {
    const { clock, ledger, recorder, count, advance } = recording();
    await using _recorder = recorder;
    recorder.record({ refusal: exceeded(), request: request() });
    clock.set(noon - 5 * minuteMs);
    recorder.record({ refusal: exceeded(), request: request() });
    await advance(2_000);
    clock.set(noon);
    recorder.record({ refusal: exceeded(), request: request() });
    await advance(2_000);
    expect(count()).toBe(3);
    expect(ledger.written.map(({ minute }) => (minute - noon) / minuteMs)).toEqual([0, -5, 0]);
  });

  it("writes equal refusals once per batch, even after a failed write and a clock that is set back", async () => {
    const clock = manualClock(noon);
    const batches: (readonly RefusalRow[])[] = [];
    const answers: ((isStored: boolean) => void)[] = [];
    const add = (rows: readonly RefusalRow[]) => {
      batches.push(rows);
      return new Promise<boolean>((resolve) => answers.push(resolve));
    };
    const recorder = startRefusalRecorder({
      clock,
      log: silentLog,
      refusals: { add, remove: async () => 0, excess: async () => null },
    });
    recorder.record({ refusal: exceeded(), request: request() });
    clock.advance(2_000);
    await setImmediate();
    clock.advance(minuteMs);
    recorder.record({ refusal: exceeded(), request: request() });
    answers[0]?.(false);
    await setImmediate();
    clock.set(noon + 1);
    recorder.record({ refusal: exceeded(), request: request() });
    clock.advance(2_000);
    await setImmediate();
    const rows = batches[1]?.map(({ minute, count }) => [(minute - noon) / minuteMs, count]);
    expect(rows?.toSorted()).toEqual([
      [0, 2],
      [1, 1],
    ]);
    answers[1]?.(true);
    await recorder[Symbol.asyncDispose]();
    expect(batches).toHaveLength(2);
  });

  /** Creates a recorder with a ledger in which rows of some keys cause an error. */
  function failing(isBad: (key: string) => boolean) {
    const clock = manualClock(noon);
    const lines: unknown[] = [];
    const written: RefusalRow[] = [];
    let writes = 0;
    const add = async (rows: readonly RefusalRow[]) => {
      writes += 1;
      if (rows.some(({ key }) => isBad(key))) throw new Error("cannot be stored");
      written.push(...rows);
      return true;
    };
    const log: Log = {
      ...silentLog,
      error: (fields, message) => void lines.push([message, String((fields as { err: unknown }).err)]),
      warn: (fields, message) => void lines.push([message, fields]),
    };
    const refusals = { add, remove: async () => 0, excess: async () => null };
    const recorder = startRefusalRecorder({ clock, log, refusals });
    const advance = async (steps: number) => {
      for (let n = 0; n < steps; n++) {
        clock.advance(2_000);
        await setImmediate();
      }
    };
    return { recorder, written, lines, advance, writes: () => writes };
  }
  const failed = ["refusals could not be recorded", "Error: cannot be stored"];
  const missing = (refusals: number) => ["refused requests are missing in the record of refusals", { refusals }];

  it("writes all rows except one that causes an error, which it drops after a minute", async () => {
    const { recorder, written, lines, advance } = failing((key) => key === "k77");
    for (let n = 0; n < 1_000; n++) recorder.record({ refusal: exceeded(), request: request({ key: keyOf(`k${n}`) }) });
    recorder.record({ refusal: exceeded(), request: request({ key: keyOf("k77") }) });
    await advance(2);
    expect(written).toHaveLength(999);
    expect(lines).toEqual([failed]);
    await advance(40);
    expect(lines).toEqual([failed, missing(2)]);
    recorder.record({ refusal: exceeded(), request: request({ key: keyOf("k78") }) });
    await recorder[Symbol.asyncDispose]();
    expect(written.reduce((sum, { count }) => sum + count, 0)).toBe(1_000);
    expect(lines).toHaveLength(2);
  });

  it("keeps all rows while none can be written, with few attempts", async () => {
    let isBroken = true;
    const { recorder, written, lines, advance, writes } = failing(() => isBroken);
    for (let n = 0; n < 2_000; n++) recorder.record({ refusal: exceeded(), request: request({ key: keyOf(`k${n}`) }) });
    await advance(10);
    expect(lines).toEqual([failed]);
    expect(writes()).toBeLessThanOrEqual(200);
    isBroken = false;
    await advance(3);
    expect(written).toHaveLength(2_000);
    await recorder[Symbol.asyncDispose]();
    expect(lines).toHaveLength(1);
  });

  it("states at the end how many refusals could not be written", async () => {
    const { recorder, written, lines } = failing((key) => key === "bad");
    for (const key of ["bad", "good", "bad"])
      recorder.record({ refusal: exceeded(), request: request({ key: keyOf(key) }) });
    await recorder[Symbol.asyncDispose]();
    expect(written.map(({ key }) => key)).toEqual(["good"]);
    expect(lines).toEqual([failed, missing(2)]);
  });

  it("removes rows that are too old or too many, at the start, every ten minutes and after 10,000 rows", async () => {
    const { ledger, recorder, advance } = recording();
    await using _recorder = recorder;
    ledger.excess = { minute: noon, id: "a" };
    await advance(2_000);
    const old = { minute: noon + 2_000 - refusalsKeptMs, id: "" };
    expect(ledger.removed).toEqual([old, old, ledger.excess]);
    ledger.excess = null;
    await advance(600_000);
    expect(ledger.removed).toHaveLength(4);
    for (let n = 0; n < 10_000; n++)
      recorder.record({ refusal: exceeded(), request: request({ key: keyOf(`k${n}`) }) });
    await advance(30_000);
    expect(ledger.removed).toHaveLength(5);
  });
});
