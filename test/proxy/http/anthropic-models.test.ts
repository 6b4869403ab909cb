import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchAnswer } from "../../support/wire-client.ts";

interface Page {
  readonly data: readonly { readonly id: string; readonly type: string; readonly created_at: string }[];
  readonly has_more: boolean;
  readonly first_id: string | null;
  readonly last_id: string | null;
}

let proxy: RunningProxy;
let few: string;
beforeAll(async () => {
  proxy = await startProxy();
  few = await proxy.addKey("few", { models: ["claude-haiku*", "gpt-4o"] });
});
afterAll(() => proxy[Symbol.asyncDispose]());

const get = async (path: string, key = proxy.key, headers: object = { "anthropic-version": "2023-06-01" }) => {
  const { status, body } = await fetchAnswer({ url: proxy.url, key }, undefined, {
    method: "GET",
    path,
    headers: { ...headers },
  });
  return { status, json: JSON.parse(body.toString()) as unknown };
};
const page = async (query: string, key?: string) => (await get(`/v1/models${query}`, key)).json as Page;
const idsOf = ({ data }: Page) => data.map(({ id }) => id);

describe("the list of models for a client of Anthropic", () => {
  it("has Anthropic's models that the key may use, newest first, in Anthropic's format", async () => {
    const all = await page("?limit=1000");
    const listed = ((await get("/v1/models", proxy.key, {})).json as { data: { id: string; owned_by: string }[] }).data;
    const claude = listed.filter(({ owned_by: owner }) => owner === "anthropic").map(({ id }) => id);
    expect(claude.length).toBeGreaterThan(4);
    expect(idsOf(all).toSorted()).toEqual(claude.toSorted());
    expect(all.data[0]).toEqual({
      type: "model",
      id: idsOf(all)[0],
      display_name: idsOf(all)[0],
      created_at: expect.stringMatching(/^20\d\d-\d\d-\d\dT00:00:00Z$/),
    });
    const days = all.data.map(({ created_at: day }) => day);
    expect(days).toEqual(days.toSorted().toReversed());
    expect(all).toMatchObject({ has_more: false, first_id: idsOf(all)[0], last_id: idsOf(all).at(-1) });
    const ofFew = idsOf(await page("?limit=1000", few));
    expect(ofFew).toEqual(idsOf(all).filter((id) => id.startsWith("claude-haiku")));
    expect(ofFew).not.toEqual([]);
  });

  it("has pages in both directions that join to the whole list", async () => {
    const all = idsOf(await page("?limit=1000"));
    const forth: string[] = [];
    for (let query = "?limit=3"; ;) {
      const next = await page(query);
      forth.push(...idsOf(next));
      if (!next.has_more) break;
      query = `?limit=3&after_id=${next.last_id}`;
    }
    expect(forth).toEqual(all);
    const back = [all.at(-1) ?? ""];
    for (let more = true; more;) {
      const before = await page(`?limit=2&before_id=${back[0]}`);
      back.unshift(...idsOf(before));
      more = before.has_more;
    }
    expect(back).toEqual(all);
    expect(await page(`?after_id=${all.at(-1)}`)).toEqual({
      data: [],
      has_more: false,
      first_id: null,
      last_id: null,
    });
    expect(await page("?limit=1")).toMatchObject({ has_more: true, first_id: all[0], last_id: all[0] });
  });

  it("has 20 models on a page without a limit", async () => {
    const rates =
      "{ from: 2026-01-01, source: test, official: { input: '1', output: '2' }, gateway: { input: '1', output: '2' } }";
    const own = Array.from(
      { length: 25 },
      (_, number) =>
        `  claude-own-${number + 10}: { context_tokens: 1000, max_output_tokens: 100, prices: [${rates}] }\n`,
    );
    using prices = priceFolder(`provider: anthropic\nmodels:\n${own.join("")}`);
    await using more = await startProxy({ env: { FAREBOX_PRICING: prices.path } });
    const { body } = await fetchAnswer(more, undefined, {
      method: "GET",
      path: "/v1/models",
      headers: { "anthropic-version": "2023-06-01" },
    });
    const first = JSON.parse(body.toString()) as Page;
    expect([first.data.length, first.has_more]).toEqual([20, true]);
  });

  it.each([
    ["?limit=0", "limit must be a whole number from 1 to 1000; it was '0'"],
    ["?limit=1001", "limit must be a whole number from 1 to 1000; it was '1001'"],
    ["?limit=1e2", "limit must be a whole number from 1 to 1000; it was '1e2'"],
    ["?limit=", "limit must be a whole number from 1 to 1000; it was ''"],
    ["?after_id=gpt-4o", "after_id must be a model of this list; it was 'gpt-4o'"],
    ["?before_id=", "before_id must be a model of this list; it was ''"],
    ["?after_id=a&before_id=b", "send after_id or before_id, not both"],
  ])("refuses %s", async (query, message) => {
    expect(await get(`/v1/models${query}`)).toMatchObject({
      status: 400,
      json: { type: "error", error: { type: "invalid_request_error", code: "invalid_request", message } },
    });
  });

  it("has each of its models by any of its names, and no other model", async () => {
    const one = await get("/v1/models/Claude-Haiku-4-5", few);
    expect(one).toMatchObject({ status: 200, json: { type: "model", id: "claude-haiku-4-5" } });
    for (const other of ["gpt-4o", "claude-sonnet-4-5", "unheard-of"])
      expect(await get(`/v1/models/${other}`, few)).toMatchObject({
        status: 404,
        json: { type: "error", error: { type: "not_found_error", code: "not_found" } },
      });
  });
});

it("batches and files are refused in the format of their client, with the reason", async () => {
  const [batches, files, ofOpenAi] = await Promise.all([
    fetchAnswer(proxy, {}, { path: "/v1/messages/batches" }),
    fetchAnswer(proxy, {}, { path: "/v1/files", headers: { "anthropic-version": "2023-06-01" } }),
    fetchAnswer(proxy, {}, { path: "/v1/files" }),
  ]);
  const shown = [batches, files, ofOpenAi].map(({ status, body }) => [status, JSON.parse(body.toString()) as unknown]);
  const notFound = (message: string) => ({ type: "error", error: { type: "not_found_error", message } });
  const why = (start: string) => expect.stringContaining(`Farebox does not support ${start}`) as string;
  expect(shown).toMatchObject([
    [404, notFound(why("batches, because"))],
    [404, notFound(why("files, because"))],
    [404, { error: { type: "invalid_request_error", message: why("files, because") } }],
  ]);
});
