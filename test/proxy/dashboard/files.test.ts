import { globSync } from "node:fs";
import { expect, it } from "vitest";
import { loadedByDashboard } from "../../support/dashboard-files.ts";
import { startProxy } from "../../support/running-proxy.ts";

it("the page loads every module of the dashboard, from this Farebox alone", async () => {
  await using proxy = await startProxy();
  const loaded = await loadedByDashboard(proxy.url);
  expect(
    [...loaded].filter(
      ([address, answer]) => !address.startsWith(`${proxy.url}/dashboard/`) || !answer.startsWith("200 "),
    ),
  ).toEqual([]);
  const modules = globSync("**/*.ts", { cwd: new URL("../../../src/dashboard", import.meta.url) });
  const asked = new Set(loaded.keys());
  expect(
    modules.filter(
      (name) =>
        ![".ts", ".js"].some((ending) => asked.has(`${proxy.url}/dashboard/assets/${name.slice(0, -3)}${ending}`)),
    ),
  ).toEqual([]);
  expect([...loaded.values()].filter((answer) => answer === "200 font/woff2")).toHaveLength(3);
});
