import { describe, expect, it } from "vitest";
import type { Shortage } from "../../../src/core/budget.ts";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import type { Refusal } from "../../../src/core/refusals.ts";
import type { Charging, HoldRequest, HoldResult } from "../../../src/ports/ledger.ts";
import { holdRefusal, placeHold } from "../../../src/request/hold.ts";
import type { Growth, Pricer, Quote, Reservation } from "../../../src/request/price.ts";
import { sendBeforeFile, unnamedModel } from "../../../src/wire/form.ts";
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
    promptTokens: 500,
    unboundedFields: [],
    bounded: true,
    toolCalls: null,
    catalogue: catalogueOf([asked]),
    hold: pico(1000),
    growth: null,
    beyond: null,
    outputTokens: 100,
    ...changes,
  };
}

function shortage(exhausted: boolean): Shortage {
  const budget = {
    id: "b",
    scope: { kind: "all" },
    period: "1d",
    mode: "hard",
    limit: pico(5000),
    warnPercent: null,
  } as const;
  return {
    window: { budget, subject: "", start: 0, end: 1, spent: pico(300), held: pico(4000) },
    needed: pico(1000),
    exhausted,
  };
}

const noRoom = (exhausted = false): HoldResult => ({ ok: false, reason: "no_room", shortage: shortage(exhausted) });
const room = (amount: PicoUsd | null): HoldResult => ({ ok: true, room: amount });
const tags = { app: "tests" };
const body = Buffer.from("{}");

/** Places a hold with a ledger that answers so, and a pricer whose count of the prompt gives `tighter`. */
async function placed(asked: Quote, answers: readonly HoldResult[], tighter?: Reservation) {
  const held: HoldRequest[] = [];
  const rooms: bigint[] = [];
  const tighten: Pricer["tighten"] = async (_, bytes, room) => {
    expect(bytes).toBe(body);
    rooms.push(room);
    return tighter && { ...tighter, promptTokens: 10 };
  };
  const deps = {
    ledger: only<Charging>({
      async hold(order) {
        held.push(order);
        const answer = answers[held.length - 1];
        if (answer === undefined) throw new Error("the ledger is asked too often");
        return answer;
      },
    }),
    pricer: { tighten } as Pricer,
    scopeName: async ({ window }: Shortage) => `scope of ${window.budget.id}`,
  };
  const holding = await placeHold(deps, {
    id: "c1",
    kind: "request",
    route: "/v1/chat/completions",
    who: someone,
    quote: asked,
    body,
    basis: null,
    fitted: null,
    tags,
    retry: 2,
  });
  return { holding, held, rooms };
}

describe("a hold", () => {
  it("is asked for with all that the ledger writes down", async () => {
    const asked = quote({ bounded: false, model: model({ group: "half" }) });
    const { holding, held } = await placed(asked, [room(pico(7))]);
    expect(held).toEqual([
      {
        id: "c1",
        kind: "request",
        at: noon,
        caller: someone.caller,
        route: "/v1/chat/completions",
        model: "plain",
        group: "half",
        stream: true,
        price: asked.model?.price,
        amount: pico(1000),
        basis: null,
        bounded: false,
        tags,
        retry: 2,
      },
    ]);
    expect(holding).toEqual({
      ok: true,
      held: {
        id: "c1",
        route: "/v1/chat/completions",
        hold: pico(1000),
        growth: null,
        price: asked.model?.price?.version,
        room: pico(7),
      },
      fitted: null,
    });
  });

  it("of a model that the catalogue does not know has neither group nor price", async () => {
    const { holding, held } = await placed(quote({ model: undefined, hold: null, bounded: false }), [room(null)]);
    expect(held).toMatchObject([{ group: null, price: null, amount: null }]);
    expect(holding).toMatchObject({ held: { hold: null, price: null, room: null } });
  });

  it("of a model without a price has its group", async () => {
    const { holding, held } = await placed(quote({ model: model({ price: null }), hold: null, bounded: false }), [
      room(null),
    ]);
    expect(held).toMatchObject([{ group: "general", price: null }]);
    expect(holding).toMatchObject({ held: { price: null } });
  });

  it.each<[string, Quote, PicoUsd | null, object]>([
    ["is the first slice where a hard budget applies", quote({ growth }), pico(50), { hold: pico(11), growth }],
    [
      "is the whole where no hard budget applies: nothing can outgrow it",
      quote({ growth }),
      null,
      { hold: pico(1000), growth: null },
    ],
    ["is the whole where it does not grow", quote(), pico(50), { hold: pico(1000), growth: null }],
    ["is the first slice where nothing is left", quote({ growth }), pico(0), { hold: pico(11), growth }],
  ])("%s", async (_, asked, left, expected) => {
    const { holding, held } = await placed(asked, [room(left)]);
    expect(holding).toMatchObject({ ok: true, held: expected });
    expect(held.map(({ amount, firstSlice }) => [amount, firstSlice])).toEqual([
      [pico(1000), asked.growth === null ? undefined : pico(11)],
    ]);
  });
});

describe("a hold without room", () => {
  it.each([
    ["of a busy budget: what is neither spent nor held", false, 700n],
    ["of an exhausted budget: what is not spent", true, 4700n],
  ])("is counted for the room %s", async (_, exhausted, expected) => {
    const { rooms } = await placed(quote(), [noRoom(exhausted)]);
    expect(rooms).toEqual([expected]);
  });

  it("is asked for once more where the count is lower", async () => {
    const { holding, held } = await placed(quote(), [noRoom(), room(pico(1))], { hold: pico(999), growth: null });
    expect(held.map(({ amount }) => amount)).toEqual([pico(1000), pico(999)]);
    expect(holding).toMatchObject({ ok: true, held: { hold: pico(999), room: pico(1) } });
  });

  it("compares first slices where the hold grows, and then grows by the count", async () => {
    const lower: Growth = { ...growth, costAt: (tokens) => pico(tokens) };
    const { holding, held } = await placed(quote({ growth }), [noRoom(), room(pico(1))], {
      hold: pico(1000),
      growth: lower,
    });
    expect(held.map(({ firstSlice }) => firstSlice)).toEqual([pico(11), pico(10)]);
    expect(holding).toMatchObject({ held: { hold: pico(10), growth: lower } });
  });

  it.each<[string, Reservation | undefined]>([
    ["the count is the same", { hold: pico(1000), growth: null }],
    ["the prompt cannot be counted", undefined],
  ])("is refused at once where %s", async (_, tighter) => {
    const { holding, held } = await placed(quote(), [noRoom(true)], tighter);
    expect(held).toHaveLength(1);
    expect(holding).toEqual({
      ok: false,
      refusal: { code: "budget_exceeded", shortage: shortage(true), scopeName: "scope of b" },
    });
  });

  it("is refused as the second try was", async () => {
    const { holding } = await placed(quote(), [noRoom(true), noRoom(false)], { hold: pico(999), growth: null });
    expect(holding).toEqual({
      ok: false,
      refusal: { code: "budget_held", shortage: shortage(false), scopeName: "scope of b" },
    });
  });
});

describe("a hold that is refused for another reason", () => {
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
      "an upload that has not named its model yet",
      quote({ request: request({ model: unnamedModel }) }),
      sendBeforeFile("model"),
    ],
    [
      "fields that nothing bounds",
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
      "fields without a reason",
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
        underBudget: true,
      },
    ],
    [
      "a model that the catalogue does not know",
      quote({ models: [{ name: "new", model: undefined }] }),
      {
        code: "model_not_priced",
        model: "new",
        underBudget: true,
      },
    ],
  ])("%s", async (_, asked, refusal) => {
    const { holding, held, rooms } = await placed(asked, [notBounded]);
    expect(holding).toEqual({ ok: false, refusal });
    expect([held.length, rooms]).toEqual([1, []]);
  });

  it.each([{ isUnpriced: true }, { model: unnamedModel }])(
    "a ledger that cannot be written, whatever the request says: %j",
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

  it("says no why where none is stated", async () => {
    const asked = { model: "m", isPriced: true, fields: ["tools"] };
    expect(await holdRefusal({ ok: false, reason: "not_bounded" }, asked, async () => "")).toEqual({
      code: "cost_not_bounded",
      model: "m",
      fields: ["tools"],
      why: null,
    });
  });
});

it("a hold without an amount is not compared with one", async () => {
  const { held } = await placed(quote({ hold: null }), [noRoom()], { hold: usd("1"), growth: null });
  expect(held).toHaveLength(1);
});
