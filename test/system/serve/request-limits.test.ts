import { describe, expect, it } from "vitest";
import { createTeam, updateTeam } from "../../../src/admin/team-changes.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { runFarebox } from "../../support/farebox-process.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { until } from "../../support/until.ts";

const small = { max_tokens: 5 };

describe("requests per minute", () => {
  it("are shared by a team's keys; changes apply at once, those of another process soon", async () => {
    await using proxy = await startProxy();
    const { keys, teams } = proxy.serving;
    const tools = { keys, teams, clock: systemClock(), by: "test" };
    await createTeam(tools, { name: "red", limits: { rpm: 2 } });
    const [bob, carol] = [await proxy.addKey("bob", { team: "red" }), await proxy.addKey("carol", { team: "red" })];
    const statuses = async (...keys: string[]) => {
      const found: number[] = [];
      for (const key of keys) found.push((await proxy.chat(small, { key })).status);
      return found;
    };
    expect(await statuses(bob, carol, bob, carol)).toEqual([200, 200, 429, 429]);
    await updateTeam(tools, "red", { limits: { rpm: 3 } });
    expect(await statuses(bob, carol)).toEqual([200, 429]);
    await updateTeam(tools, "red", { limits: { rpm: null } });
    expect(await statuses(bob, carol)).toEqual([200, 200]);
    const updated = await runFarebox(["keys", "update", "bob", "--rpm", "1", "--database", proxy.database]);
    expect(updated).toMatchObject({ code: 0, stdout: "updated bob\n" });
    await until(async () => (await statuses(bob)).includes(429), "the limit is known");
    expect(await statuses(carol)).toEqual([200]);
  });
});

describe("a rotated key", () => {
  it("works with both secrets when another process rotated it", async () => {
    await using proxy = await startProxy();
    const old = await proxy.addKey("bob");
    await (await proxy.chat(small, { key: old })).text();
    const { stdout } = await runFarebox(["keys", "rotate", "bob", "--database", proxy.database]);
    let status = 401;
    await until(
      async () => (status = (await proxy.chat(small, { key: stdout.trim() })).status) !== 401,
      "the new secret is known",
    );
    expect([status, (await proxy.chat(small, { key: old })).status]).toEqual([200, 200]);
  });
});
