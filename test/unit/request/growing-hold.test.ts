import { everyRequest } from "../../../src/core/scope.ts";
import { describe, expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import type { Shortage } from "../../../src/core/budget.ts";
import type { PicoUsd } from "../../../src/core/money.ts";
import { noTokens, type Permille, type Usage } from "../../../src/core/usage.ts";
import type { CatalogueModel } from "../../../src/ports/catalogue.ts";
import type { Charging, ExtendResult } from "../../../src/ports/ledger.ts";
import { GrowingHold, pauseMsMax, type GrowDeps } from "../../../src/request/growing-hold.ts";
import type { Growth, Pricer, HoldPlan } from "../../../src/request/price.ts";
import { captureLog } from "../../support/captured-log.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { only } from "../../support/only.ts";
import { catalogueOf, characterCounter, model, noon, request } from "./examples.ts";

/** Returns the cost: 11 for the prompt and 100 for each output token. */
const costAt = (tokens: number) => BigInt(11 + 100 * tokens) as PicoUsd;
/** Extends the hold after 32 tokens, and pauses reading after 48. */
const growth: Growth = { sliceTokens: 64, outputTokensMax: 1000, costAt };
const body = new BodyBytes([Buffer.from("{}")]);
const budget = {
  id: "b",
  scope: everyRequest,
  period: "1d",
  mode: "hard",
  limit: costAt(64),
  warnPercent: null,
} as const;
const shortage: Shortage = {
  window: { budget, subject: "", start: 0, end: 1, spent: costAt(0), held: costAt(0), raises: [] },
  needed: costAt(0),
  exhausted: true,
};

const granted = (tokens: number): ExtendResult => ({ ok: true, granted: BigInt(100 * tokens) as PicoUsd });
const noRoom: ExtendResult = { ok: false, reason: "no_room", shortage };
const unavailable: ExtendResult = { ok: false, reason: "unavailable" };
const outOfBudget = {
  code: "budget_exceeded",
  shortage,
  scopeName: "scope of b",
  subjectName: null,
  showsAmounts: false,
  running: true,
};
const outOfLedger = { code: "ledger_unavailable", running: true };

/** Returns the plan after a count of the prompt that frees the cost of `tokens` output tokens. */
const lower = (tokens: number): HoldPlan => ({
  hold: null,
  growth: { ...growth, costAt: (count) => (costAt(count) - BigInt(100 * tokens)) as PicoUsd },
});

interface Setting {
  readonly model?: Partial<CatalogueModel>;
  /** Plan after the prompt is counted. */
  readonly tighter?: HoldPlan;
  readonly hold?: PicoUsd;
  readonly growth?: Growth;
  /** Output maximum of the request. */
  readonly statedTokens?: number;
  /** True if the stream has not begun. */
  readonly isSilent?: boolean;
}

/** Resolves when only timers and the ledger are still pending. */
const untilIdle = () => new Promise<void>(setImmediate);

/** Starts a stream under a hold of one slice. The test answers for the ledger and advances the clock. */
function streaming(setting: Setting = {}) {
  const clock = manualClock();
  const log = captureLog();
  const extensions: (readonly [wanted: number, least: number])[] = [];
  const answers: { readonly resolve: (result: ExtendResult) => void; readonly reject: (error: Error) => void }[] = [];
  const refusals: unknown[] = [];
  const stopped: unknown[] = [];
  const rooms: bigint[] = [];
  const reportedKinds: string[] = [];
  let pausedMs = 0;
  const paces: string[] = [];
  const tokens = characterCounter();
  const asModel = model(setting.model);
  const quote = {
    request: request(),
    at: noon,
    model: asModel,
    models: [{ name: asModel.id, model: asModel }],
    modelIds: [asModel.id],
    anyModel: false,
    promptTokens: 11,
    unboundedFields: [],
    bounded: true,
    toolCalls: null,
    outputTokens: null,
    catalogue: catalogueOf([asModel]),
    hold: costAt(1000),
    growth,
    beyond: null,
    costAt: null,
  };
  const deps: GrowDeps = {
    ledger: only<Charging>({
      extend(id, amount, atLeast) {
        expect(id).toBe("c1");
        extensions.push([Number(amount) / 100, Number(atLeast) / 100]);
        return new Promise((resolve, reject) => answers.push({ resolve, reject }));
      },
    }),
    tokens,
    pricer: {
      async tighten(given, bytes, room) {
        expect([given, bytes]).toEqual([quote, body]);
        rooms.push(room);
        return setting.tighter;
      },
    } as Pricer,
    clock,
    log,
    budgetNames: async ({ budget: { id } }) => ({ scopeName: `scope of ${id}`, subjectName: null }),
    ownView: "own",
  };
  const hold = new GrowingHold(deps, {
    id: "c1",
    caller: { key: "k1", team: null },
    onRefusal: (refusal) => void refusals.push(refusal),
    hold: setting.hold ?? costAt(64),
    growth: setting.growth ?? growth,
    quote,
    body,
    statedTokens: setting.statedTokens ?? null,
    onKind: (kind) => reportedKinds.push(kind),
  });
  if (setting.isSilent !== true) {
    hold.begin({
      pace: { pause: () => paces.push("pause"), resume: () => paces.push("resume") },
      pausedMs: () => pausedMs,
      stop: (reason, refusal) => stopped.push([reason, refusal]),
    });
  }
  return {
    hold,
    clock,
    log,
    extensions,
    refusals,
    stopped,
    rooms,
    reportedKinds,
    paces,
    tokens,
    /** Writes text with exactly this many tokens, then checks the hold, as after each chunk. */
    async writes(count: number) {
      hold.output.unknown(count);
      hold.onChunk();
      await untilIdle();
    },
    /** Answers the pending extension. */
    async answers(result: ExtendResult | Error) {
      const waiting = answers.shift();
      if (waiting === undefined) throw new Error("no extension is pending");
      if (result instanceof Error) waiting.reject(result);
      else waiting.resolve(result);
      await untilIdle();
    },
    /** Reading is paused for a time. */
    pausesFor(ms: number) {
      pausedMs += ms;
    },
    async passes(ms: number) {
      clock.advance(ms);
      await untilIdle();
    },
  };
}

it("counting is prepared before a stream writes, unless its hold already covers a stated maximum", () => {
  expect(streaming().tokens.prepared).toEqual(["cl100k_base"]);
  expect(streaming({ statedTokens: 200 }).tokens.prepared).toEqual([]);
});

describe("a stream with a stated maximum of 200", () => {
  // The slack is a tenth plus 64 tokens.
  const stated = { statedTokens: 200, hold: costAt(200) };

  it("keeps its hold up to the maximum plus some slack", async () => {
    const stream = streaming(stated);
    await stream.writes(284);
    expect([stream.extensions, stream.paces]).toEqual([[], []]);
    stream.hold.end();
    expect(await stream.hold.settled()).toBe(costAt(200));
  });

  it("extends its hold above the slack, and is ended if its budget has no room", async () => {
    const stream = streaming(stated);
    await stream.writes(285);
    expect([stream.extensions, stream.paces]).toEqual([[[149, 102]], ["pause"]]);
    await stream.answers(granted(149));
    expect(stream.paces).toEqual(["pause", "resume"]);
    await stream.writes(149);
    await stream.answers(noRoom);
    await stream.answers(noRoom);
    await stream.passes(10);
    expect(stream.stopped).toEqual([["budget_exceeded", outOfBudget]]);
  });

  it("is counted before its hold is extended", async () => {
    const stream = streaming(stated);
    stream.hold.output.text("a".repeat(300), 0);
    stream.hold.onChunk();
    await untilIdle();
    stream.hold.output.text("b".repeat(10), 0);
    expect(stream.tokens.counted.map(({ texts }) => texts)).toEqual([["a".repeat(300)]]);
  });

  it("keeps its hold after unreadable events, and reports no kind of stream", async () => {
    const stream = streaming(stated);
    stream.hold.cannotRead();
    await stream.writes(5000);
    stream.hold.end();
    expect([stream.extensions, stream.paces, stream.reportedKinds]).toEqual([[], [], []]);
  });

  it("is read only when its bytes could be more than the hold covers, and not for its last bytes", async () => {
    const { hold, writes } = streaming(stated);
    expect([hold.mustRead(284, false), hold.mustRead(285, false), hold.mustRead(285, true)]).toEqual([
      false,
      true,
      false,
    ]);
    await writes(100);
    expect([hold.mustRead(184, false), hold.mustRead(185, false)]).toEqual([false, true]);
    const denser = streaming({ ...stated, model: { tokensPerByte: 1500 as never } }).hold;
    expect([denser.mustRead(189, false), denser.mustRead(190, false)]).toEqual([false, true]);
    hold.end();
    expect(hold.mustRead(1000, false)).toBe(false);
  });
});

describe("a stream without a maximum", () => {
  it("is counted from start to end, because its pace shows whether it is a burst", () => {
    const { hold } = streaming({ hold: costAt(1000) });
    expect([hold.mustRead(1, false), hold.mustRead(1, true)]).toEqual([true, true]);
  });

  it("is reported as a burst once, as soon as it arrives", async () => {
    const stream = streaming();
    await stream.writes(1025);
    await stream.writes(1025);
    stream.hold.end();
    expect(stream.reportedKinds).toEqual(["burst"]);
  });

  it("is reported as a burst by the bytes of its text", async () => {
    const stream = streaming({ hold: costAt(1000) });
    stream.hold.output.text("ä".repeat(513), 0);
    stream.hold.onChunk();
    expect(stream.reportedKinds).toEqual(["burst"]);
    stream.hold.end();
    await stream.hold.settled();
  });

  it("is not a burst if the gateway wrote it while reading was paused", async () => {
    const stream = streaming({ hold: costAt(1000) });
    await stream.writes(1);
    stream.pausesFor(1000);
    await stream.writes(3023);
    expect(stream.reportedKinds).toEqual([]);
    await stream.writes(1);
    expect(stream.reportedKinds).toEqual(["burst"]);
  });

  it("is not reported as a burst after its end, but may be before its answer begins", async () => {
    const ended = streaming({ hold: costAt(1000) });
    ended.hold.end();
    await ended.writes(5000);
    expect(ended.reportedKinds).toEqual([]);
    const silent = streaming({ hold: costAt(1000), isSilent: true });
    await silent.writes(1025);
    expect(silent.reportedKinds).toEqual(["burst"]);
  });

  it("is reported as live once, at its end", async () => {
    const stream = streaming({ hold: costAt(1000) });
    for (let second = 0; second < 3; second++) {
      await stream.writes(400);
      stream.clock.advance(1000);
    }
    expect(stream.reportedKinds).toEqual([]);
    stream.hold.end();
    expect(stream.reportedKinds).toEqual(["live"]);
    stream.hold.end();
    expect(stream.reportedKinds).toEqual(["live"]);
  });
});

describe("a hold of 64 tokens", () => {
  it("is extended by a slice once half of it is written, and no earlier", async () => {
    const stream = streaming();
    await stream.writes(31);
    expect(stream.extensions).toEqual([]);
    await stream.writes(1);
    expect(stream.extensions).toEqual([[64, 17]]);
    await stream.writes(15);
    expect(stream.extensions).toHaveLength(1);
    await stream.answers(granted(64));
    expect(await stream.hold.settled()).toBe(costAt(128));
    expect(stream.paces).not.toContain("pause");
    await stream.writes(48);
    expect(stream.extensions).toHaveLength(1);
    await stream.writes(1);
    expect(stream.extensions).toEqual([
      [64, 17],
      [64, 17],
    ]);
  });

  it("is extended again at once if one extension is not enough for the text written meanwhile", async () => {
    const stream = streaming();
    await stream.writes(32);
    await stream.writes(80);
    await stream.answers(granted(64));
    expect(stream.extensions).toEqual([
      [64, 17],
      [64, 17],
    ]);
  });

  it("requests at most the model's maximum, and nothing beyond it", async () => {
    const stream = streaming({ hold: costAt(990) });
    await stream.writes(960);
    expect(stream.extensions).toEqual([[10, 10]]);
    await stream.answers(granted(10));
    await stream.writes(10_000);
    expect(stream.extensions).toHaveLength(1);
    expect(stream.paces).toEqual(["resume"]);
    expect(stream.clock.waiting).toBe(0);
  });

  it("requests only the missing amount, even if the hold is not a whole number of tokens", async () => {
    const stream = streaming({ hold: (costAt(64) + 99n) as PicoUsd });
    await stream.writes(32);
    expect(stream.extensions).toEqual([[64 - 0.99, 17 - 0.99]]);
  });

  it("pauses the stream before it is used up, until it is extended", async () => {
    const stream = streaming();
    await stream.writes(47);
    expect(stream.paces).toEqual([]);
    await stream.writes(1);
    expect(stream.paces).toEqual(["pause"]);
    await stream.writes(1);
    expect(stream.paces).toEqual(["pause"]);
    await stream.answers(granted(64));
    expect(stream.paces).toEqual(["pause", "resume"]);
    expect(stream.clock.waiting).toBe(0);
    await stream.passes(pauseMsMax);
    expect([stream.stopped, stream.refusals]).toEqual([[], []]);
  });

  it("pauses the stream again after an extension", async () => {
    const stream = streaming();
    await stream.writes(48);
    await stream.answers(granted(64));
    await stream.writes(64);
    expect(stream.paces).toEqual(["pause", "resume", "pause"]);
  });
});

describe("a stream whose text may have fewer tokens than its bytes allow", () => {
  const setting: Setting = { model: { tokensPerByte: 4000 as Permille } };

  it("is counted before its hold is extended", async () => {
    const stream = streaming(setting);
    stream.hold.output.text("12345", 0);
    stream.hold.output.text("678", 1);
    stream.hold.onChunk();
    await untilIdle();
    expect(stream.tokens.counted.map(({ texts }) => texts)).toEqual([["12345"], ["678"]]);
    expect(stream.extensions).toEqual([]);
    expect(stream.paces).toEqual(["resume"]);
    await stream.writes(6);
    expect(stream.extensions).toEqual([[64, 17]]);
  });

  it("extends its hold if the count shows that it must", async () => {
    const stream = streaming(setting);
    stream.hold.output.text("x".repeat(33), 0);
    stream.hold.onChunk();
    await untilIdle();
    expect([stream.tokens.counted.length, stream.extensions]).toEqual([1, [[64, 17]]]);
  });

  it("counts the text of an event that has not ended", async () => {
    const stream = streaming();
    stream.hold.output.inFlight(32);
    stream.hold.onChunk();
    expect(stream.extensions).toEqual([[64, 17]]);
  });
});

describe("an extension without room", () => {
  it("is requested once more when the stream cannot continue without it, and then ends the stream", async () => {
    const stream = streaming();
    await stream.writes(32);
    await stream.answers(noRoom);
    expect(stream.rooms).toEqual([costAt(64)]);
    await stream.writes(15);
    expect([stream.extensions.length, stream.paces]).toEqual([1, ["resume"]]);
    await stream.writes(1);
    expect(stream.extensions).toEqual([
      [64, 17],
      [64, 17],
    ]);
    await stream.answers(noRoom);
    expect([stream.stopped, stream.rooms.length]).toEqual([[], 1]);
    expect(stream.paces).toEqual(["resume", "pause", "resume"]);
    await stream.passes(10);
    expect(stream.refusals).toEqual([outOfBudget]);
    expect(stream.stopped).toEqual([["budget_exceeded", outOfBudget]]);
    expect(await stream.hold.settled()).toBe(costAt(64));
  });

  it("no longer counts after another is granted: the next one is requested early again", async () => {
    const stream = streaming();
    await stream.writes(32);
    await stream.answers(noRoom);
    await stream.writes(16);
    await stream.answers(granted(64));
    await stream.writes(48);
    expect(stream.extensions).toEqual([
      [64, 17],
      [64, 17],
      [64, 17],
    ]);
    await stream.answers(noRoom);
    await stream.passes(10);
    expect(stream.stopped).toEqual([]);
  });

  it("has the prompt counted once, and uses the freed amount for output", async () => {
    const stream = streaming({ tighter: lower(20) });
    await stream.writes(32);
    await stream.answers(noRoom);
    expect(stream.rooms).toEqual([costAt(64)]);
    // 84 tokens are covered now.
    await stream.writes(19);
    expect(stream.extensions).toHaveLength(1);
    await stream.writes(1);
    expect(stream.extensions).toEqual([
      [64, 17],
      [64, 17],
    ]);
    await stream.answers(noRoom);
    await stream.writes(15);
    expect(stream.extensions).toHaveLength(2);
    await stream.writes(1);
    await stream.answers(noRoom);
    await stream.passes(10);
    expect([stream.rooms.length, stream.stopped.length]).toEqual([1, 1]);
  });

  it.each<[string, HoldPlan]>([
    ["a hold as large", lower(0)],
    ["a larger hold", lower(-20)],
    ["a hold that does not grow", { hold: costAt(0), growth: null }],
  ])("ends the stream if the count of the prompt gives %s", async (_, tighter) => {
    const stream = streaming({ tighter });
    await stream.writes(32);
    await stream.answers(noRoom);
    await stream.writes(15);
    expect(stream.extensions).toHaveLength(1);
    await stream.writes(1);
    await stream.answers(noRoom);
    await stream.passes(10);
    expect(stream.stopped).toEqual([["budget_exceeded", outOfBudget]]);
  });
});

describe("a ledger that cannot be written", () => {
  it("is asked again after pauses that double up to a second, and start over after an answer", async () => {
    const stream = streaming();
    await stream.writes(32);
    for (const [index, pause] of [50, 100, 200, 400, 800, 1000, 1000].entries()) {
      await stream.answers(unavailable);
      await stream.passes(pause - 1);
      expect(stream.extensions).toHaveLength(index + 1);
      await stream.passes(1);
      expect(stream.extensions).toHaveLength(index + 2);
    }
    await stream.answers(granted(64));
    await stream.writes(64);
    await stream.answers(unavailable);
    await stream.passes(50);
    expect(stream.extensions).toHaveLength(10);
  });

  it("ends a stream that has paused for two seconds", async () => {
    const stream = streaming();
    await stream.writes(48);
    await stream.passes(pauseMsMax - 1);
    expect(stream.paces).toEqual(["pause"]);
    await stream.passes(1);
    expect([stream.paces, stream.stopped]).toEqual([["pause", "resume"], []]);
    await stream.passes(9);
    expect(stream.stopped).toEqual([]);
    await stream.passes(1);
    expect(stream.refusals).toEqual([outOfLedger]);
    expect(stream.stopped).toEqual([["ledger_unavailable", outOfLedger]]);
    // The late answer does not change that, but its amount is held.
    await stream.answers(granted(64));
    expect(await stream.hold.settled()).toBe(costAt(128));
    expect(stream.extensions).toHaveLength(1);
  });

  it("is not asked again by a stream that was ended meanwhile", async () => {
    const stream = streaming();
    await stream.writes(48);
    await stream.answers(unavailable);
    for (let round = 0; stream.stopped.length === 0; round += 1) {
      expect(round).toBeLessThan(9);
      await stream.passes(500);
      if (stream.extensions.length === round + 2) await stream.answers(unavailable);
    }
    const before = stream.extensions.length;
    await stream.passes(10_000);
    expect([stream.extensions.length, stream.stopped.length, stream.clock.waiting]).toEqual([before, 1, 0]);
  });

  it.each<[string, ExtendResult | Error, number]>([
    ["no longer has the charge", { ok: false, reason: "not_pending" }, 0],
    ["fails", new Error("a bug"), 1],
  ])("ends the stream if it %s", async (_, answer, lines) => {
    const stream = streaming();
    await stream.writes(32);
    await stream.answers(answer);
    await stream.passes(10);
    expect(stream.stopped).toEqual([["ledger_unavailable", outOfLedger]]);
    expect(stream.log.lines).toEqual(
      Array.from({ length: lines }, () => ({
        level: "error",
        fields: { request_id: "c1", err: answer },
        message: "a hold could not be extended",
      })),
    );
    expect(await stream.hold.settled()).toBe(costAt(64));
  });
});

describe("a stream that cannot be read", () => {
  it("pauses until its worst case is held", async () => {
    const stream = streaming();
    stream.hold.cannotRead();
    await untilIdle();
    expect([stream.paces, stream.extensions]).toEqual([["pause"], [[936, 936]]]);
    await stream.answers(granted(936));
    expect(stream.paces).toEqual(["pause", "resume"]);
    await stream.writes(5000);
    expect([stream.extensions.length, stream.paces.length]).toEqual([1, 2]);
  });

  it("is ended if there is no room for it, after its prompt was counted", async () => {
    const stream = streaming();
    stream.hold.cannotRead();
    await stream.answers(noRoom);
    expect(stream.rooms).toHaveLength(1);
    await stream.passes(10);
    expect(stream.stopped).toEqual([["budget_exceeded", outOfBudget]]);
  });

  it("asks once more if a count of its prompt frees room", async () => {
    const stream = streaming({ tighter: lower(20) });
    stream.hold.cannotRead();
    await stream.answers(noRoom);
    expect(stream.extensions).toEqual([
      [936, 936],
      [916, 916],
    ]);
    await stream.answers(noRoom);
    await stream.passes(10);
    expect([stream.rooms.length, stream.stopped]).toEqual([1, [["budget_exceeded", outOfBudget]]]);
  });

  it("is ended at once if a count of its prompt frees nothing", async () => {
    const stream = streaming({ tighter: lower(0) });
    stream.hold.cannotRead();
    await stream.answers(noRoom);
    await stream.passes(10);
    expect([stream.extensions.length, stream.stopped.length]).toEqual([1, 1]);
  });

  it("that has not begun continues anyway, and nothing is logged", async () => {
    const stream = streaming({ isSilent: true });
    stream.hold.cannotRead();
    await stream.answers(noRoom);
    await stream.passes(10);
    expect([stream.refusals, stream.hold.inFlightTokens, stream.log.lines]).toEqual([[], 0, []]);
  });
});

describe("a stream that states its usage so far", () => {
  const usage = (prompt: number, completion: number): Usage => ({
    tokens: { ...noTokens, input: prompt, output: completion },
    clamped: false,
  });

  it("is held for what it states, if that is more than what it shows", async () => {
    const stream = streaming();
    stream.hold.output.usage(usage(1, 40));
    await stream.writes(0);
    expect(stream.extensions).toHaveLength(1);
  });

  it("has the text after it counted before the hold is extended", async () => {
    const stream = streaming({ model: { tokensPerByte: 4000 as Permille } });
    stream.hold.output.usage(usage(1, 1));
    stream.hold.output.text("a".repeat(20), 0);
    await stream.writes(0);
    expect(stream.extensions).toEqual([]);
  });

  it("may state a larger prompt in each of many events", async () => {
    const stream = streaming();
    for (let prompt = 1; prompt <= 20_000; prompt++) stream.hold.output.usage(usage(prompt, 1));
    await stream.writes(1);
    expect(stream.extensions).toHaveLength(1);
  });
});

describe("a stream with an image or sound", () => {
  it("pauses until its worst case is held", async () => {
    const stream = streaming();
    stream.hold.output.media();
    stream.hold.output.media();
    await untilIdle();
    expect([stream.paces, stream.extensions]).toEqual([["pause"], [[936, 936]]]);
  });

  it("waits for the pending extension, and then requests the rest", async () => {
    const stream = streaming();
    await stream.writes(32);
    stream.hold.output.media();
    await untilIdle();
    expect([stream.paces, stream.extensions]).toEqual([["pause"], [[64, 17]]]);
    await stream.answers(granted(64));
    expect(stream.extensions).toEqual([
      [64, 17],
      [872, 872],
    ]);
    expect(stream.paces).toEqual(["pause"]);
  });

  it("continues if its worst case is held", async () => {
    const stream = streaming({ hold: costAt(1000) });
    stream.hold.output.media();
    await untilIdle();
    expect([stream.paces, stream.extensions]).toEqual([[], []]);
  });

  it("requests nothing once it has ended or is being ended", async () => {
    const over = streaming();
    over.hold.end();
    over.hold.output.media();
    const ending = streaming();
    await ending.writes(32);
    await ending.answers({ ok: false, reason: "not_pending" });
    ending.hold.output.media();
    await untilIdle();
    expect([over.paces, over.extensions, ending.paces, ending.extensions.length]).toEqual([[], [], ["resume"], 1]);
  });
});

describe("a stream that has ended or is being ended", () => {
  it("requests nothing more and stops its timers", async () => {
    const stream = streaming();
    await stream.writes(48);
    stream.hold.end();
    expect(stream.clock.waiting).toBe(0);
    await stream.writes(1000);
    await stream.answers(noRoom);
    await stream.passes(pauseMsMax);
    expect([stream.extensions.length, stream.stopped, stream.refusals]).toEqual([1, [], []]);
    expect(await stream.hold.settled()).toBe(costAt(64));
  });

  it.each<[string, ExtendResult | Error]>([
    ["no longer has the charge", { ok: false, reason: "not_pending" }],
    ["fails", new Error("a bug")],
  ])("is not ended for its hold if the ledger %s afterwards", async (_, answer) => {
    const stream = streaming();
    await stream.writes(32);
    stream.hold.end();
    await stream.answers(answer);
    await stream.passes(10);
    expect([stream.stopped, stream.refusals, stream.clock.waiting]).toEqual([[], [], 0]);
  });

  it("is neither paused nor extended while it is being ended", async () => {
    const stream = streaming();
    await stream.writes(32);
    await stream.answers({ ok: false, reason: "not_pending" });
    await stream.writes(500);
    expect([stream.paces, stream.extensions.length]).toEqual([["resume"], 1]);
    await stream.passes(10);
    expect(stream.stopped).toHaveLength(1);
  });

  it("returns its held amount as soon as the pending extension is answered", async () => {
    const stream = streaming();
    await stream.writes(32);
    stream.hold.end();
    let held: PicoUsd | undefined;
    void stream.hold.settled().then((amount) => (held = amount));
    await untilIdle();
    expect(held).toBeUndefined();
    await stream.answers(granted(64));
    expect(held).toBe(costAt(128));
    expect(stream.paces).toEqual([]);
  });

  it("does not wait for a ledger that cannot be written", async () => {
    const stream = streaming();
    await stream.writes(32);
    await stream.answers(unavailable);
    expect(stream.clock.waiting).toBe(1);
    stream.hold.end();
    expect(stream.clock.waiting).toBe(0);
    expect(await stream.hold.settled()).toBe(costAt(64));
    expect(stream.extensions).toHaveLength(1);
  });

  it("is not ended again for its hold while its last bytes are forwarded", async () => {
    const stream = streaming();
    await stream.writes(32);
    await stream.answers({ ok: false, reason: "not_pending" });
    stream.hold.end();
    await stream.passes(10);
    expect([stream.stopped, stream.refusals, stream.hold.inFlightTokens]).toEqual([[], [], 0]);
  });
});

describe("the estimate of unread output when a stream is ended", () => {
  it("is the stream's own pace, times the time until the gateway notices the end", async () => {
    const stream = streaming();
    await stream.writes(10);
    await stream.passes(100);
    await stream.writes(22);
    await stream.answers({ ok: false, reason: "not_pending" });
    expect(stream.hold.inFlightTokens).toBe(0);
    // Text that arrives meanwhile counts too: 40 tokens in 105 ms, and 5 + 50 ms until the gateway notices.
    await stream.passes(5);
    stream.hold.output.unknown(8);
    await stream.passes(5);
    expect(stream.stopped).toHaveLength(1);
    expect(stream.hold.inFlightTokens).toBe(16);
  });

  it("is rounded up", async () => {
    const stream = streaming();
    await stream.writes(1);
    await stream.passes(1000);
    await stream.writes(31);
    await stream.answers({ ok: false, reason: "not_pending" });
    await stream.passes(10);
    // 32 tokens in 1000 ms, and 10 + 50 ms until the gateway notices.
    expect(stream.hold.inFlightTokens).toBe(2);
  });

  it("is zero if nothing was written", async () => {
    const stream = streaming();
    stream.hold.cannotRead();
    await stream.answers(noRoom);
    await stream.passes(10);
    expect([stream.stopped.length, stream.hold.inFlightTokens]).toEqual([1, 0]);
  });
});
