import { describe, expect, it } from "vitest";
import { callAdmin } from "../support/admin-client.ts";
import { startProxy } from "../support/running-proxy.ts";

const claude = {
  "x-claude-code-session-id": "11111111-2222-4333-8444-555555555555",
  "x-claude-code-agent-id": "a1",
  "x-claude-code-parent-agent-id": "a0",
};
const token = "from-the-settings-0123456789";
const ofClaude = { agent_session: claude["x-claude-code-session-id"], agent: "a1", parent_agent: "a0" };

describe("headers of agents", () => {
  it("become tags of the charge, below tags that the client, the session or the key states", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    const pinned = await proxy.addKey("bob", { tags: { agent: "pinned" }, requires: ["tag:agent_session"] });
    const begun = await fetch(`${proxy.url}/v1/farebox/sessions`, {
      method: "POST",
      headers: { authorization: `Bearer ${proxy.key}`, "content-type": "application/json" },
      body: JSON.stringify({ tags: { agent: "of the run" } }),
    });
    const run = (await begun.json()) as { readonly id: string; readonly api_key: string };
    const eight = Array.from({ length: 8 }, (_, index) => `t${index}=v`).join(",");
    for (const [key, headers] of [
      [proxy.key, claude],
      [proxy.key, { "session-id": "c1", "thread-id": "c2", "x-codex-parent-thread-id": "c1" }],
      [proxy.key, { ...claude, "x-farebox-tag": "agent=stated" }],
      [pinned, claude],
      [run.api_key, claude],
      [proxy.key, { ...claude, "x-claude-code-agent-id": "a,b", "x-claude-code-session-id": "x".repeat(129) }],
      [proxy.key, { ...claude, "x-farebox-tag": eight }],
    ] as const)
      expect([headers, (await proxy.chat({ max_tokens: 5 }, { key, headers })).status]).toEqual([headers, 200]);
    expect((await proxy.charges()).map(({ tags }) => tags)).toEqual([
      ofClaude,
      { agent_session: "c1", agent: "c2", parent_agent: "c1" },
      { ...ofClaude, agent: "stated" },
      { ...ofClaude, agent: "pinned" },
      { ...ofClaude, agent: "of the run", session: run.id },
      { parent_agent: "a0" },
      Object.fromEntries(eight.split(",").map((pair) => pair.split("="))),
    ]);
    const report = await callAdmin(proxy.url, "GET", "/usage?by=tag:agent_session,tag:agent", { token });
    const rows = report.json["rows"] as readonly Record<string, unknown>[];
    expect(rows.map((row) => [row["tag:agent_session"], row["tag:agent"], row["requests"]])).toEqual([
      [null, null, 2],
      [ofClaude.agent_session, "a1", 1],
      [ofClaude.agent_session, "of the run", 1],
      [ofClaude.agent_session, "pinned", 1],
      [ofClaude.agent_session, "stated", 1],
      ["c1", "c2", 1],
    ]);
    expect(await proxy.metrics()).not.toMatch(/11111111|agent_session/);
  });

  it("are those that the settings name", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_TAG_HEADERS: "X-Team-Name=team" } });
    await proxy.chat({ max_tokens: 5 }, { headers: { ...claude, "x-team-name": "red" } });
    expect((await proxy.onlyCharge()).tags).toEqual({ team: "red" });
    await using off = await startProxy({ env: { FAREBOX_TAG_HEADERS: "off" } });
    await off.chat({ max_tokens: 5 }, { headers: claude });
    expect((await off.onlyCharge()).tags).toEqual({});
  });

  it("open windows of budgets on their tags, and count as new subjects only there", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_SUBJECTS_MAX: "2" } });
    const send = async (session: string) =>
      (await proxy.chat({ max_tokens: 5 }, { headers: { "x-claude-code-session-id": session } })).status;
    expect([await send("s1"), await send("s2"), await send("s3")]).toEqual([200, 200, 200]);
    await proxy.budget("each-key each-tag:agent_session", "1");
    expect([await send("s4"), await send("s5"), await send("s6"), await send("s4")]).toEqual([200, 200, 429, 200]);
  });
});
