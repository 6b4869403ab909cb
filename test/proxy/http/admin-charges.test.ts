import { describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { formatUsd, noMoney } from "../../../src/core/money.ts";
import { callAdmin } from "../../support/admin-client.ts";
import { prepareMixedTraffic } from "../../support/mixed-traffic.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const token = "from-the-settings-0123456789";
const started = () => startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });

interface Page {
  readonly charges: readonly { readonly request_id: string }[];
  readonly next: string | null;
  readonly examined_to: string | null;
}

async function page(proxy: RunningProxy, query: string): Promise<Page> {
  const reply = await callAdmin(proxy.url, "GET", `/charges?${query}`, { token });
  expect(reply.status, reply.text).toBe(200);
  return reply.json as never as Page;
}

const idsOf = ({ charges }: Page) => charges.map(({ request_id }) => request_id);

describe("GET /charges", () => {
  it("filters charges for admins and for keys, and sorts them", async () => {
    await using proxy = await started();
    await (await prepareMixedTraffic(proxy, 10)).round();
    const all = (await proxy.charges()).toReversed();
    const [first] = all;
    const { json: alice } = (await callAdmin(proxy.url, "GET", "/keys/alice", { token })) as { json: { id: string } };
    const costs = all.map(({ cost }) => cost ?? noMoney).sort((a, b) => (a < b ? -1 : 1));
    const middle = costs[Math.floor(costs.length / 2)] ?? noMoney;
    const filters: [string, (charge: Charge) => boolean][] = [
      ["team=research", ({ team }) => team === "research"],
      ["without=team", ({ team }) => team === null],
      ["without=key", ({ key }) => key === ""],
      ["without=group", ({ group }) => group === null],
      ["group=openai", ({ group }) => group === "openai"],
      ["status=200", ({ status }) => status === 200],
      ["status=4xx", ({ status }) => status !== null && status >= 400 && status < 500],
      ["source=counted", ({ source }) => source === "counted"],
      ["doubt=true", ({ doubts }) => doubts.length > 0],
      [`min_usd=${formatUsd(middle)}`, ({ cost }) => cost !== null && cost >= middle],
      [`max_usd=${formatUsd(middle)}`, ({ cost }) => cost !== null && cost <= middle],
      [`q=${first?.id.slice(0, 13)}`, ({ id }) => id.startsWith(first?.id.slice(0, 13) ?? "?")],
      ["q=0", ({ id }) => id.startsWith("0")],
      ["q=", () => true],
    ];
    for (const [query, matches] of filters) {
      const expected = new Set(all.filter(matches).map(({ id }) => id));
      expect([query, new Set(idsOf(await page(proxy, query)))]).toEqual([query, expected]);
      if (query.startsWith("team")) continue;
      const own = await fetch(`${proxy.url}/v1/farebox/charges?${query}`, {
        headers: { authorization: `Bearer ${proxy.key}` },
      });
      const ofKey = all.filter((charge) => matches(charge) && charge.key === alice.id).map(({ id }) => id);
      expect([query, idsOf((await own.json()) as Page)]).toEqual([query, ofKey]);
    }
    const byCost = all.toSorted((a, b) => {
      const [x, y] = [a.cost ?? noMoney, b.cost ?? noMoney];
      return x === y ? all.indexOf(a) - all.indexOf(b) : x < y ? 1 : -1;
    });
    const listed: string[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const part: Page = await page(proxy, `sort=cost&limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`);
      listed.push(...idsOf(part));
      cursor = part.next;
    }
    expect(listed).toHaveLength(all.length);
    expect(listed.map((id) => all.find((each) => each.id === id)?.cost ?? noMoney)).toEqual(
      byCost.map(({ cost }) => cost ?? noMoney),
    );
    expect(idsOf(await page(proxy, "sort=time&order=asc"))).toEqual(all.map(({ id }) => id).toReversed());
  });

  it("refuses an invalid filter and states what it must be", async () => {
    await using proxy = await started();
    for (const [query, message] of [
      ["status=600", "'status' must be an HTTP status such as 429, or 4xx or 5xx."],
      ["status=4x", "'status' must be an HTTP status such as 429, or 4xx or 5xx."],
      ["source=guessed", "'source' must be one of reported, counted, partial, assumed."],
      ["doubt=false", /^'doubt' must be true or one of unknown_output, /],
      ["min_usd=much", "'min_usd' must be an amount in USD such as 0.25, below 9 million."],
      ["max_usd=99999999", "'max_usd' must be an amount in USD such as 0.25, below 9 million."],
      ["without=model", "'without' must be one of key, team, group."],
      ["sort=model", "'sort' must be one of time, cost."],
      ["order=up", "'order' must be asc or desc."],
      ["label=env", "'label' must be a name and a value such as env=prod."],
      [`user=${"u".repeat(201)}`, "'user' must be a text of at most 200 characters."],
      ["tag=feature", "'tag' must be a name and a value such as feature=search."],
      ["team=%00", "'team' must be a text of at most 200 characters."],
      [`q=${"0".repeat(101)}`, "'q' must be a text of at most 100 characters."],
    ] as const) {
      const reply = await callAdmin(proxy.url, "GET", `/charges?${query}`, { token });
      expect([query, reply.status]).toEqual([query, 400]);
      expect(reply.json).toMatchObject({
        error: { message: typeof message === "string" ? message : expect.stringMatching(message) },
      });
    }
  });
});
