import { describe, expect, it } from "vitest";
import { adminRoutes } from "../../../src/server/http/admin/routes.ts";
import { callAdmin } from "../../support/admin-client.ts";
import { csvRecords } from "../../support/csv.ts";
import { prepareMixedTraffic } from "../../support/mixed-traffic.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const token = "from-the-settings-0123456789";

type Json = Readonly<Record<string, unknown>>;

/** Reads a list as CSV and as JSON. */
async function both(proxy: RunningProxy, path: string, name: string) {
  const separator = path.includes("?") ? "&" : "?";
  const csv = await callAdmin(proxy.url, "GET", `${path}${separator}format=csv`, { token });
  expect([path, csv.status, csv.text.slice(0, 200)]).toEqual([path, 200, expect.anything()]);
  expect(csv.headers).toMatchObject({ "content-type": "text/csv; charset=utf-8", "cache-control": "no-store" });
  const { json } = await callAdmin(proxy.url, "GET", `${path}${separator}limit=1000`, { token });
  const rows = (json as Json)[name] as Json[];
  return { csv, ...csvRecords(csv.text), rows };
}

describe("lists as CSV", () => {
  it("contain every row of every page, with the exact values of the JSON", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    await (await prepareMixedTraffic(proxy, 10)).round();
    await proxy.charges();
    await proxy.budget("key:alice", "0.000001", "1d");
    expect((await proxy.chat({})).status).toBe(402);
    const names = {
      "/keys": "keys",
      "/teams": "teams",
      "/models": "models",
      "/budgets/ranked": "budgets",
      "/charges": "charges",
      "/refusals": "refusals",
      "/audit": "entries",
      "/admins": "admins",
    } as const;
    const declared = adminRoutes("1").filter(({ csv }) => csv !== null);
    expect(declared.map(({ path }) => path).sort()).toEqual(Object.keys(names).sort());
    for (const [path, name] of Object.entries(names)) {
      const { csv, columns, records, rows } = await both(proxy, path, name);
      expect(csv.headers["content-disposition"]).toMatch(/^attachment; filename="farebox-[a-z]+\.csv"$/);
      expect([path, records.length]).toEqual([path, rows.length]);
      for (const [index, row] of rows.entries())
        for (const column of columns) {
          const value = row[column];
          if (value === undefined || typeof value === "object") continue;
          expect([path, column, records[index]?.[column]]).toEqual([path, column, String(value)]);
        }
    }
    const spenders = await both(proxy, "/keys?sort=spent", "keys");
    expect(spenders.records.map(({ key, spent_usd }) => [key, spent_usd])).toEqual(
      spenders.rows.map(({ name, usage }) => [name, (usage as Json).spent_usd]),
    );
    expect(
      (await both(proxy, "/charges?team=research&sort=cost", "charges")).records.map(({ team }) => team),
    ).toContain("research");
    expect((await callAdmin(proxy.url, "GET", "/charges?format=xml", { token })).status).toBe(400);
    expect((await callAdmin(proxy.url, "GET", "/charges?format=csv&key=stranger", { token })).status).toBe(404);
    expect((await callAdmin(proxy.url, "GET", "/charges?format=csv", {})).status).toBe(401);

    const own = await fetch(`${proxy.url}/v1/farebox/charges?format=csv`, {
      headers: { authorization: `Bearer ${proxy.key}` },
    });
    const { records } = csvRecords(await own.text());
    expect(new Set(records.map(({ key }) => key))).toEqual(new Set(["alice"]));
    expect(records.length).toBeGreaterThan(0);
  });

  it("escape spreadsheet formulas, and ignore the page limit", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
    for (const why of ["=HYPERLINK(1)", "+1", "@x"]) {
      await (await proxy.chat({})).text();
      const [charge] = await proxy.charges();
      const body = { amount_usd: "0.01", why };
      await callAdmin(proxy.url, "POST", `/charges/${charge?.id}/corrections`, { token, body });
    }
    const { text } = await callAdmin(proxy.url, "GET", "/charges?format=csv&limit=1&order=asc", { token });
    const reasons = csvRecords(text).records.flatMap(({ correction_why }) => correction_why ?? []);
    expect(reasons.toSorted()).toEqual(["'+1", "'=HYPERLINK(1)", "'@x"]);
  });
});
