import { afterAll, describe, expect, it } from "vitest";
import { formatUsd, type PicoUsd } from "../../src/core/money.ts";
import { selfServiceRoutes } from "../../src/server/http/self-service.ts";
import { chatWith } from "../support/new-charges.ts";
import { only } from "../support/only.ts";
import { priceFolder, videoTaskPrices } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, type WireAnswer } from "../support/wire-client.ts";
import { isThorough } from "../support/effort.ts";
import { patientClock } from "../support/patient-clock.ts";

/*
 * Tests all places where a caller with an internal key can see an amount, for every scope of a budget. A key must not
 * see the limit, spent, held or remaining amount of a shared budget unless FAREBOX_OWN_VIEW is `all`.
 */

const prices = priceFolder(videoTaskPrices);
afterAll(() => prices[Symbol.dispose]());

/** Limit whose digits occur in no other amount of the test. */
const limit = "0.003456789";

const scopes = [
  ["all", "shared"],
  ["team:red", "shared"],
  ["each-key", "own"],
  ["each-key:red", "own"],
  ["key:bob", "own"],
] as const;

/** Routes of /v1/farebox that answer with the key's own data. */
const ownPaths = ["/me", "/overview", "/requests/live", "/charges", "/charges/:id", "/refusals", "/refusals/causes"];

const large = { max_tokens: 4000 };

/** Requests that the budget refuses. */
const refused: readonly (readonly [path: string, body: object])[] = [
  ["/v1/chat/completions", chatWith("tokens:20", large)],
  ["/v1/chat/completions", chatWith("tokens:20", { ...large, stream: true })],
  ["/v1/responses", { model: "gpt-4o", input: "Say hello.", max_output_tokens: 4000 }],
  ["/v1/completions", { model: "gpt-4o", prompt: "Once upon a time", ...large }],
  ["/v1/embeddings", { model: "text-embedding-3-large", input: Array.from({ length: 400 }, () => "ab ".repeat(500)) }],
  ["/api/v1/task", { model: "kling", task_type: "video_generation", input: { prompt: "a bridge", duration: 5 } }],
];

const textOf = ({ status, headers, body }: WireAnswer) => `${status} ${JSON.stringify(headers)} ${body.toString()}`;

/** Returns the amounts of the budget that may be hidden from a key, as they are written. */
async function amountsOf({ serving }: RunningProxy, key: string): Promise<string[]> {
  const windows = await serving.ledger.windowsOf({ key, team: "red" }, Date.now());
  return windows
    .flatMap(({ budget, spent, held }) => [
      budget.limit,
      spent,
      held,
      budget.limit - spent,
      budget.limit - spent - held,
    ])
    .filter((amount) => amount > 0n)
    .map((amount) => formatUsd(amount as PicoUsd));
}

describe.each(scopes)("a budget of the scope %s", (scope, whose) => {
  const views = isThorough || scope === "all" ? (["own", "all"] as const) : (["own"] as const);
  it.each(views)("shows its amounts to a key only if they are its own or FAREBOX_OWN_VIEW is all: %s", async (view) => {
    const env = {
      FAREBOX_OWN_VIEW: view,
      FAREBOX_STREAM_SLICE: "64",
      FAREBOX_FIT: "off",
      FAREBOX_PRICING: prices.path,
    };
    await using proxy = await startProxy({ env, clock: patientClock() });
    const bob = await proxy.addKey("bob", { team: "red" });
    const carol = await proxy.addKey("carol", { team: "red" });
    const asBob = { url: proxy.url, key: bob };
    const id = (await proxy.serving.keys.find("bob"))?.id ?? "";
    /** Places where an amount of the budget was visible. */
    const seenAt = new Set<string>();
    const places = new Set<string>();
    const record = async (place: string, text: string) => {
      places.add(place);
      const amounts = await amountsOf(proxy, id);
      const isSeen = (amount: string) => new RegExp(`(?<![\\d.])${amount.replace(".", "\\.")}(?!\\d)`).test(text);
      if (amounts.some(isSeen)) seenAt.add(place);
    };

    await proxy.budget(scope, limit, "1mo");
    // Spending of other keys must not show in what bob sees.
    expect((await fetchAnswer({ url: proxy.url, key: carol }, chatWith("tokens:7", { max_tokens: 30 }))).status).toBe(
      200,
    );
    const answer = await fetchAnswer(asBob, chatWith("tokens:11", { max_tokens: 30 }));
    expect(answer.status).toBe(200);
    await proxy.charges();
    await record("answer", textOf(answer));

    for (const [path, body] of refused) {
      const refusal = await fetchAnswer(asBob, body, { path });
      expect([path, refusal.status, refusal.headers["x-farebox-error"]]).toEqual([path, 402, "budget_exceeded"]);
      await record(`402 of ${path}`, textOf(refusal));
    }

    await proxy.serving.recorder.flush();
    const requestId = String(answer.headers["x-farebox-request-id"]);
    for (const path of ownPaths) {
      const shown = await fetchAnswer(asBob, undefined, {
        method: "GET",
        path: `/v1/farebox${path.replace(":id", requestId)}`,
      });
      expect([path, shown.status]).toEqual([path, 200]);
      await record(path, textOf(shown));
    }
    for (const path of ["/v1/models", "/dashboard/session", "/readyz"])
      await record(path, textOf(await fetchAnswer(asBob, undefined, { method: "GET", path })));

    const session = await fetchAnswer(asBob, {}, { path: "/v1/farebox/sessions" });
    expect(session.status).toBe(201);
    const sessionPath = `/v1/farebox/sessions/${(JSON.parse(session.body.toString()) as { id: string }).id}`;
    await record("POST /sessions", textOf(session));
    for (const method of ["GET", "DELETE"])
      await record(`${method} /sessions`, textOf(await fetchAnswer(asBob, undefined, { method, path: sessionPath })));

    const endless = { model: "gpt-4o", input: "Hello. #sandbox endless:1", stream: true };
    const stream = await fetchAnswer(asBob, endless, { path: "/v1/responses" });
    const failure = /event: response\.failed[^]*/.exec(stream.body.toString())?.[0] ?? "";
    expect(failure).toContain('"code":"budget_exceeded"');
    await record("end of a stream", failure);
    await proxy.charges();
    await record(
      "/me under a budget that is used up",
      textOf(await fetchAnswer(asBob, undefined, { method: "GET", path: "/v1/farebox/me" })),
    );

    const isShown = view === "all" || whose === "own";
    const shownAt = ["answer", ...new Set(refused.map(([path]) => `402 of ${path}`)), "/me", "end of a stream"];
    if (isShown) expect([...seenAt]).toEqual(expect.arrayContaining(shownAt));
    else expect([...seenAt]).toEqual([]);
    expect(shownAt.filter((place) => !places.has(place))).toEqual([]);
  });
});

it("every route for a key's own data is tested here", () => {
  const routes = selfServiceRoutes(
    only<Parameters<typeof selfServiceRoutes>[0]>({ authenticate: async () => ({}) as never }),
  );
  const reading = routes.filter(({ method }) => method === "get");
  expect(reading.map(({ path }) => path)).toEqual(ownPaths.map((path) => `/v1/farebox${path}`));
  // Its answer contains only the raise request. test/proxy/http/raise-requests.test.ts covers it.
  expect(routes.filter((route) => !reading.includes(route)).map(({ path }) => path)).toEqual(["/v1/farebox/raises"]);
});
