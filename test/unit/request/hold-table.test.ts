import { describe, expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import type { BudgetWindow, Shortage } from "../../../src/core/budget.ts";
import {
  type Scope,
  eachKeyScope,
  everyRequest,
  hasSubjects,
  keyOfScope,
  keyScope,
  teamScope,
} from "../../../src/core/scope.ts";
import type { Key } from "../../../src/core/keys.ts";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import type { Refusal } from "../../../src/core/refusals.ts";
import type { Charging, HoldRequest, HoldResult } from "../../../src/ports/ledger.ts";
import { holdRefusal, placeHold, budgetNamesOf, writeHold } from "../../../src/request/hold.ts";
import type { Growth, Pricer, Quote, HoldPlan } from "../../../src/request/price.ts";
import { chatCompletions } from "../../../src/wire/endpoints/chat-completions.ts";
import { unnamedModel } from "../../../src/wire/model-request.ts";
import { catalogueOf, model, noon, request, someone } from "./examples.ts";
import { only } from "../../support/only.ts";

const pico = (amount: number) => BigInt(amount) as PicoUsd;
const growth: Growth = { sliceTokens: 10, outputTokensMax: 100, costAt: (tokens) => pico(tokens + 1) };

function quote(changes: Partial<Quote> = {}): Quote {
  const asked = model();
  return {
    request: request(),
    at: noon,
    model: asked,
    models: [{ name: asked.id, model: asked }],
    modelIds: [asked.id],
    anyModel: false,
    promptTokens: 500,
    unboundedFields: [],
    bounded: true,
    toolCalls: null,
    catalogue: catalogueOf([asked]),
    hold: pico(1000),
    growth: null,
    beyond: null,
    costAt: null,
    outputTokens: 100,
    ...changes,
  };
}

function shortage(exhausted: boolean): Shortage {
  const budget = {
    id: "b",
    scope: everyRequest,
    period: "1d",
    mode: "hard",
    limit: pico(5000),
    warnPercent: null,
  } as const;
  return {
    window: { budget, subject: "", start: 0, end: 1, spent: pico(300), held: pico(4000), raises: [] },
    needed: pico(1000),
    exhausted,
  };
}

const noRoom = (exhausted = false): HoldResult => ({ ok: false, reason: "no_room", shortage: shortage(exhausted) });
const room = (amount: PicoUsd | null): HoldResult => ({ ok: true, room: amount, keyRoom: null });
const tags = { app: "tests" };
const body = new BodyBytes([Buffer.from("{}")]);

/** Places a hold with a scripted ledger, and a pricer whose count of the prompt returns `tighter`. */
async function placed(asked: Quote, answers: readonly HoldResult[], tighter?: HoldPlan) {
  const held: HoldRequest[] = [];
  const rooms: bigint[] = [];
  const tighten: Pricer["tighten"] = async (_, bytes, room) => {
    expect(bytes).toBe(body);
    rooms.push(room);
    return tighter && { ...tighter, promptTokens: 10 };
  };
  const deps: Parameters<typeof placeHold>[0] = {
    ledger: only<Charging>({
      async hold(order) {
        held.push(order);
        const answer = answers[held.length - 1];
        if (answer === undefined) throw new Error("the ledger is asked too often");
        return answer;
      },
    }),
    pricer: { tighten } as Pricer,
    budgetNames: async ({ budget }: BudgetWindow) => ({ scopeName: `scope of ${budget.id}`, subjectName: null }),
    ownView: "own",
  };
  const holding = await placeHold(deps, {
    id: "c1",
    kind: "request",
    route: "/v1/chat/completions",
    who: someone,
    capped: { quote: asked, body, injected: null },
    maximum: null,
    fit: null,
    mayPass: () => false,
    sender: { tags, user: null },
    retry: 2,
  });
  return { holding, held, rooms };
}

describe("a hold", () => {
  it("is requested with every field that the ledger stores", async () => {
    const asked = quote({ bounded: false, model: model({ group: "half" }) });
    const { holding, held } = await placed(asked, [room(pico(7))]);
    expect(held).toEqual([
      {
        id: "c1",
        kind: "request",
        at: noon,
        caller: { ...someone.caller, user: null },
        route: "/v1/chat/completions",
        model: "plain",
        group: "half",
        stream: true,
        price: asked.model?.price,
        amount: pico(1000),
        basis: null,
        bounded: false,
        tags,
        models: [asked.model?.id],
        anyModel: false,
        retry: 2,
      },
    ]);
    expect(holding).toEqual({
      ok: true,
      charge: {
        id: "c1",
        route: "/v1/chat/completions",
        hold: pico(1000),
        growth: null,
        price: asked.model?.price?.version,
        room: pico(7),
        visibleRoom: pico(7),
      },
      held: { quote: asked, body, injected: null },
    });
  });

  it("of a model that the catalogue does not know has neither group nor price", async () => {
    const { holding, held } = await placed(quote({ model: undefined, hold: null, bounded: false }), [room(null)]);
    expect(held).toMatchObject([{ group: null, price: null, amount: null }]);
    expect(holding).toMatchObject({ charge: { hold: null, price: null, room: null } });
  });

  it("of a model without a price has its group", async () => {
    const { holding, held } = await placed(quote({ model: model({ price: null }), hold: null, bounded: false }), [
      room(null),
    ]);
    expect(held).toMatchObject([{ group: "general", price: null }]);
    expect(holding).toMatchObject({ charge: { price: null } });
  });

  it.each<[string, Quote, PicoUsd | null, object]>([
    ["is the first slice if a hard budget applies", quote({ growth }), pico(50), { hold: pico(11), growth }],
    ["is the worst case if no hard budget applies", quote({ growth }), null, { hold: pico(1000), growth: null }],
    ["is the worst case if it does not grow", quote(), pico(50), { hold: pico(1000), growth: null }],
    ["is the first slice if nothing is left", quote({ growth }), pico(0), { hold: pico(11), growth }],
  ])("%s", async (_, asked, left, expected) => {
    const { holding, held } = await placed(asked, [room(left)]);
    expect(holding).toMatchObject({ ok: true, charge: expected });
    expect(held.map(({ amount, firstSlice }) => [amount, firstSlice])).toEqual([
      [pico(1000), asked.growth === null ? undefined : pico(11)],
    ]);
  });
});

describe("a hold without room", () => {
  it.each([
    ["neither spent nor held of a budget that will have room again", false, 700n],
    ["not spent of an exhausted budget", true, 4700n],
  ])("has its prompt counted for the amount %s", async (_, exhausted, expected) => {
    const { rooms } = await placed(quote(), [noRoom(exhausted)]);
    expect(rooms).toEqual([expected]);
  });

  it("is requested again if the count is lower", async () => {
    const { holding, held } = await placed(quote(), [noRoom(), room(pico(1))], { hold: pico(999), growth: null });
    expect(held.map(({ amount }) => amount)).toEqual([pico(1000), pico(999)]);
    expect(holding).toMatchObject({ ok: true, charge: { hold: pico(999), room: pico(1) } });
  });

  it("compares first slices if it grows, and then grows by the count", async () => {
    const lower: Growth = { ...growth, costAt: (tokens) => pico(tokens) };
    const { holding, held } = await placed(quote({ growth }), [noRoom(), room(pico(1))], {
      hold: pico(1000),
      growth: lower,
    });
    expect(held.map(({ firstSlice }) => firstSlice)).toEqual([pico(11), pico(10)]);
    expect(holding).toMatchObject({ charge: { hold: pico(10), growth: lower } });
  });

  it.each<[string, HoldPlan | undefined]>([
    ["the count is the same", { hold: pico(1000), growth: null }],
    ["the prompt cannot be counted", undefined],
  ])("is refused at once if %s", async (_, tighter) => {
    const { holding, held } = await placed(quote(), [noRoom(true)], tighter);
    expect(held).toHaveLength(1);
    expect(holding).toEqual({
      ok: false,
      refusal: {
        code: "budget_exceeded",
        shortage: shortage(true),
        scopeName: "scope of b",
        subjectName: null,
        showsAmounts: true,
      },
    });
  });

  it("is refused with the result of the second try, and has its prompt counted once", async () => {
    const { holding, rooms } = await placed(quote(), [noRoom(true), noRoom(false)], { hold: pico(999), growth: null });
    expect(rooms).toHaveLength(1);
    expect(holding).toEqual({
      ok: false,
      refusal: {
        code: "budget_held",
        shortage: shortage(false),
        scopeName: "scope of b",
        subjectName: null,
        showsAmounts: true,
      },
    });
  });
});

describe("a hold that fails for another reason than room", () => {
  const notBounded: HoldResult = { ok: false, reason: "not_bounded" };
  const priceless = model({ id: "other", price: null });
  it.each<[string, Quote, Refusal]>([
    [
      "a path whose cost is not known",
      quote({ request: request({ isUnpriced: true, model: unnamedModel }) }),
      {
        code: "invalid_request",
        param: null,
        message: "The cost of this path is not known, so a key under a hard budget cannot use it.",
      },
    ],
    [
      "fields without a bound, with the reason",
      quote({
        unboundedFields: ["prediction"],
        request: request({ fields: { ...request().fields, why: "it may be billed" } }),
      }),
      {
        code: "cost_not_bounded",
        model: "plain",
        fields: ["prediction"],
        why: "it may be billed",
      },
    ],
    [
      "fields without a bound and a reason",
      quote({ unboundedFields: ["prediction"] }),
      { code: "cost_not_bounded", model: "plain", fields: ["prediction"], why: null },
    ],
    [
      "a model without a price",
      quote({
        models: [
          { name: "plain", model: model() },
          { name: "alias", model: priceless },
        ],
      }),
      {
        code: "model_not_priced",
        model: "alias",
        hardBudget: true,
      },
    ],
    [
      "a model that the catalogue does not know",
      quote({ models: [{ name: "new", model: undefined }] }),
      {
        code: "model_not_priced",
        model: "new",
        hardBudget: true,
      },
    ],
  ])("is refused for %s", async (_, asked, refusal) => {
    const { holding, held, rooms } = await placed(asked, [notBounded]);
    expect(holding).toEqual({ ok: false, refusal });
    expect([held.length, rooms]).toEqual([1, []]);
  });

  it.each([{ isUnpriced: true }, { model: unnamedModel }])(
    "is refused for a ledger that cannot be written, whatever the request: %j",
    async (changes) => {
      const { holding, held } = await placed(
        quote({ request: request(changes) }),
        [{ ok: false, reason: "unavailable" }],
        { hold: pico(1), growth: null },
      );
      expect(holding).toEqual({ ok: false, refusal: { code: "ledger_unavailable" } });
      expect(held).toHaveLength(1);
    },
  );

  it("is refused without a reason if none is known", async () => {
    const asked = { model: "m", isPriced: true, fields: ["tools"] };
    const view = { budgetNames: async () => ({ scopeName: "", subjectName: null }), ownView: "own" } as const;
    expect(await holdRefusal(view, { ok: false, reason: "not_bounded" }, asked, someone.caller)).toEqual({
      code: "cost_not_bounded",
      model: "m",
      fields: ["tools"],
      why: null,
    });
  });
});

it.each(["too_many_subjects", "unavailable"] as const)(
  "a hold that fails with %s is refused for that reason alone",
  async (reason) => {
    const asked = { model: "m", isPriced: true, fields: ["tools"], affordable: { tokens: 5, field: null } };
    const view = { budgetNames: async () => ({ scopeName: "", subjectName: null }), ownView: "own" } as const;
    expect(await holdRefusal(view, { ok: false, reason }, asked, someone.caller)).toStrictEqual({
      code: { too_many_subjects: "too_many_subjects", unavailable: "ledger_unavailable" }[reason],
    });
  },
);

it("a hold without an amount is not compared with a counted hold", async () => {
  const { held } = await placed(quote({ hold: null }), [noRoom()], { hold: usd("1"), growth: null });
  expect(held).toHaveLength(1);
});

describe("a request whose output maximum may be fitted to the budget", () => {
  const bytes = new BodyBytes([Buffer.from("{fitted}")]);
  const basis = { by: "model", outputTokens: 100, outputCap: null, fitted: null };
  /** Places a hold for a request that can be fitted. The ledger and the pricer answer in order. */
  async function fittedTo(
    answers: readonly HoldResult[],
    fits: readonly (number | null)[],
    { costOf = pico, affordable = null as number | null, field = "max_tokens" as string | null } = {},
  ) {
    const held: HoldRequest[] = [];
    const rooms: bigint[] = [];
    const counts: unknown[] = [];
    const left = [...fits];
    const asked = quote({ request: request({ ...(field !== null && { maximumField: field }) }) });
    const holding = await placeHold(
      {
        ledger: only<Charging>({
          async hold(order) {
            held.push(order);
            return answers[held.length - 1] ?? noRoom();
          },
        }),
        pricer: only<Pricer>({
          tighten: async (_, given) =>
            given === bytes ? undefined : { hold: pico(1000), growth: null, promptTokens: 10 },
          fit(given, amount) {
            expect(given).toBe(asked);
            rooms.push(amount);
            return left.shift() ?? null;
          },
          async affordable(given, body, amount, counted) {
            counts.push([given.hold, body === bytes, amount, counted]);
            return affordable;
          },
        }),
        budgetNames: async () => ({ scopeName: "all", subjectName: null }),
        ownView: "all",
      },
      {
        id: "c1",
        kind: "request",
        route: "/v1/chat/completions",
        who: someone,
        capped: { quote: asked, body, injected: null },
        maximum: chatCompletions.maximum ?? null,
        mayPass: () => false,
        fit: (tokens) =>
          tokens === 0
            ? null
            : {
                quote: quote({
                  request: request({ size: { outputMax: tokens } }),
                  hold: costOf(tokens),
                  outputTokens: tokens,
                }),
                body: bytes,
                injected: { field: "max_tokens", tokens, why: "fitted" },
              },
        sender: { tags, user: null },
        retry: 2,
      },
    );
    return { holding, held, rooms, counts };
  }

  it("is held unchanged if the budget pays for it", async () => {
    const { holding, held, rooms } = await fittedTo([room(pico(1))], []);
    expect(holding).toMatchObject({ ok: true, charge: { hold: pico(1000) }, held: { body, injected: null } });
    expect([held.length, rooms]).toEqual([1, []]);
  });

  it("is held with the maximum that fits the remaining amount", async () => {
    const { holding, held, rooms } = await fittedTo([noRoom(), room(pico(1))], [600]);
    expect(rooms).toEqual([700n]);
    expect(held).toMatchObject([
      { amount: pico(1000), basis, retry: 2 },
      { amount: pico(600), basis: { by: "fitted", fitted: 600 }, retry: 2 },
    ]);
    expect(holding).toMatchObject({
      ok: true,
      charge: { hold: pico(600) },
      held: { body: bytes, injected: { tokens: 600 } },
    });
  });

  it("is fitted three times at most if others use the budget meanwhile", async () => {
    const { holding, held } = await fittedTo([], [600, 500, 400, 300]);
    expect(held.map(({ amount }) => amount)).toEqual([pico(1000), pico(600), pico(500), pico(400)]);
    expect(holding).toMatchObject({ ok: false, refusal: { code: "budget_held" } });
  });

  it.each<[string, readonly (number | null)[], number]>([
    ["no maximum fits", [null, 5], 1],
    ["no maximum may be written", [0, 5], 1],
    ["the fitted request costs as much", [1000, 5], 1],
    ["the fitted request costs more", [1001, 5], 1],
    ["a second maximum is not smaller", [600, 600, 5], 2],
  ])("is refused if %s", async (_, fits, times) => {
    const { holding, held } = await fittedTo([], fits);
    expect(held).toHaveLength(times);
    expect(holding).toMatchObject({ ok: false, refusal: { code: "budget_held" } });
  });

  it.each<[string, HoldResult]>([
    ["its cost has no bound", { ok: false, reason: "not_bounded" }],
    ["the ledger cannot be written", { ok: false, reason: "unavailable" }],
  ])("is not fitted if %s, and has no affordable output counted", async (_, answer) => {
    const { rooms, counts } = await fittedTo([answer], [600]);
    expect([rooms, counts]).toEqual([[], []]);
  });

  it.each<[number | null, string | null, object | undefined]>([
    [7, "max_tokens", { tokens: 7, field: "max_tokens" }],
    [0, null, { tokens: 0, field: null }],
    [null, "max_tokens", undefined],
  ])(
    "that is refused states the affordable output %s, to be set in the field %s",
    async (affordable, field, expected) => {
      const { holding, counts } = await fittedTo([], [null], { affordable, field });
      expect(counts).toEqual([[pico(1000), false, 700n, 10]]);
      expect(holding.ok ? null : "affordable" in holding.refusal ? holding.refusal.affordable : undefined).toEqual(
        expected,
      );
    },
  );

  it("has a room of 0 for its affordable output if the budget is overspent", async () => {
    const over = shortage(true);
    const window = { ...over.window, spent: pico(1001), held: pico(4000) };
    const { rooms, counts } = await fittedTo([{ ok: false, reason: "no_room", shortage: { ...over, window } }], [null]);
    expect([rooms, counts]).toEqual([[0n], [[pico(1000), false, 0n, 10]]]);
  });

  it("without an amount after fitting is held without an amount", async () => {
    const { held } = await fittedTo([], [600], { costOf: () => null as unknown as PicoUsd });
    expect(held.map(({ amount }) => amount)).toEqual([pico(1000), null]);
  });
});

it.each<[Scope, string]>([
  [keyScope("k1"), "key:alice"],
  [keyScope("gone"), "key:gone"],
  [teamScope("red"), "team:red"],
  [everyRequest, "all"],
  [eachKeyScope("red"), "each-key:red"],
])("the scope %j has the name %s", async (scope, name) => {
  const asked: string[] = [];
  const findById = async (id: string) => {
    asked.push(id);
    return id === "k1" ? ({ name: "alice" } as Key) : undefined;
  };
  const isEach = hasSubjects(scope);
  const window = { ...shortage(true).window, subject: isEach ? "k1" : "" };
  expect(await budgetNamesOf({ ...window, budget: { ...window.budget, scope } }, { findById })).toEqual({
    scopeName: name,
    subjectName: isEach ? "key=alice" : null,
  });
  const key = isEach ? "k1" : keyOfScope(scope);
  expect(asked).toEqual(key === null ? [] : [key]);
});

it("a hold is written as not streamed unless the request states it", async () => {
  const asked: HoldRequest[] = [];
  const ledger = only<Charging>({
    async hold(order) {
      asked.push(order);
      return room(null);
    },
  });
  const row = {
    id: "c1",
    kind: "task",
    route: "/v1/tasks",
    who: someone,
    quote: quote(),
    sender: { tags, user: null },
    retry: 0,
  } as const;
  await writeHold(ledger, row, pico(5));
  expect(asked).toMatchObject([{ stream: false, amount: pico(5), kind: "task" }]);
});
