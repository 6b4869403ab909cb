import { describe, expect, it } from "vitest";
import { agentSessionListSchema, agentSessionSchema } from "../../../src/reporting/shapes/agent-sessions.ts";
import { formatUsd, sum } from "../../../src/core/money.ts";
import { callAdmin } from "../../support/admin-client.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const token = "from-the-settings-0123456789";
const started = () => startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });

/** Sends a request as an agent of Claude Code. */
async function send(proxy: RunningProxy, [session, agent]: readonly string[], body: object = {}, key = proxy.key) {
  const headers = {
    ...(session !== undefined && { "x-claude-code-session-id": session }),
    ...(agent !== undefined && { "x-claude-code-agent-id": agent, "x-claude-code-parent-agent-id": "main" }),
  };
  const answer = await proxy.chat({ max_tokens: 5, ...body }, { headers, key });
  await answer.arrayBuffer().catch(() => undefined);
  await proxy.serving.settled();
}

const sandbox = (scenario: string) => ({
  stream: true,
  max_tokens: 50,
  messages: [{ role: "user", content: `hello #sandbox ${scenario}` }],
});

async function get(proxy: RunningProxy, path: string) {
  const { status, json, text } = await callAdmin(proxy.url, "GET", path, { token });
  return { status, json: json as Record<string, unknown>, text };
}

describe("GET /sessions", () => {
  it("shows what sessions and their agents cost, with cut streams and the share read from the cache", async () => {
    await using proxy = await started();
    const bob = await proxy.addKey("bob");
    await send(proxy, []);
    await send(proxy, ["one"], sandbox("cached:4"));
    await send(proxy, ["one"], sandbox("cut:3"));
    await send(proxy, ["one", "a1"], { model: "gpt-4o-mini" });
    await send(proxy, ["two"], {}, bob);
    const charges = (await proxy.charges()).slice(1, 4);
    const cut = charges.filter(({ source }) => source === "partial");
    expect(cut).toHaveLength(1);
    const { status, json } = await get(proxy, "/sessions");
    expect([status, agentSessionListSchema.safeParse(json).error?.issues]).toEqual([200, undefined]);
    expect(json).toMatchObject({ next: null, examined_to: null, sessions: [{ id: "two" }, { id: "one" }] });
    const one = (json["sessions"] as readonly object[])[1];
    expect(one).toMatchObject({
      keys: ["alice"],
      requests: 3,
      cost_usd: formatUsd(sum(charges.map(({ cost }) => cost ?? (0n as never)))),
      cut: { requests: 1, cost_usd: formatUsd(cut[0]?.cost ?? (0n as never)) },
      models: [{ model: "gpt-4o", requests: 2 }, { model: "gpt-4o-mini" }],
      agents: [
        { agent: null, depth: 0, requests: 2 },
        { agent: "a1", parent: "main", depth: 1, requests: 1 },
      ],
      cached_percent: expect.any(Number),
    });
    expect((one as { cached_percent: number }).cached_percent).toBeGreaterThan(0);
    const single = await get(proxy, "/sessions/one");
    expect([single.status, agentSessionSchema.safeParse(single.json).error?.issues]).toEqual([200, undefined]);
    expect(single.json).toEqual(one);
  });

  it("filters by key and span, and has pages", async () => {
    await using proxy = await started();
    const bob = await proxy.addKey("bob");
    for (const [session, key] of [
      ["a", proxy.key],
      ["b", bob],
      ["c", proxy.key],
    ] as const)
      await send(proxy, [session], {}, key);
    const idsOf = async (query: string) =>
      ((await get(proxy, `/sessions?${query}`)).json["sessions"] as readonly { id: string }[]).map(({ id }) => id);
    expect(await idsOf("key=alice")).toEqual(["c", "a"]);
    expect(await idsOf("key=bob&since=1h")).toEqual(["b"]);
    expect(await idsOf("until=1h")).toEqual([]);
    const { json } = await get(proxy, "/sessions?limit=2");
    expect(json).toMatchObject({ sessions: [{ id: "c" }, { id: "b" }], next: expect.any(String) });
    expect(await idsOf(`limit=2&cursor=${json["next"]}`)).toEqual(["a"]);
  });

  it("says what is wrong with a request", async () => {
    await using proxy = await started();
    for (const [path, status, message] of [
      ["/sessions?cursor=x", 400, "Cursor must be the cursor of an earlier list of sessions in the same order."],
      ["/sessions?key=zed", 404, expect.stringContaining("zed")],
      ["/sessions?since=1h&until=2h", 400, expect.stringContaining("Until must not be before since")],
      ["/sessions/unknown", 404, "There is no session unknown: no request has this value of the tag agent_session."],
    ] as const) {
      const reply = await get(proxy, path);
      expect([path, reply.status, reply.json]).toEqual([
        path,
        status,
        { error: expect.objectContaining({ message }) as unknown },
      ]);
    }
  });
});
