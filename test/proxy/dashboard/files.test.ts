import { globSync } from "node:fs";
import { expect, it } from "vitest";
import { loadedByDashboard } from "../../support/dashboard-files.ts";
import { startProxy } from "../../support/running-proxy.ts";

it("the dashboard page loads all of its modules, and only from Farebox", async () => {
  await using proxy = await startProxy();
  const loaded = await loadedByDashboard(proxy.url);
  expect(
    [...loaded].filter(
      ([address, answer]) => !address.startsWith(`${proxy.url}/dashboard/`) || !answer.startsWith("200 "),
    ),
  ).toEqual([]);
  const [, assets = ""] =
    /^(.*\/)main\.js$/.exec([...loaded.keys()].find((address) => address.endsWith("/main.js")) ?? "") ?? [];
  const modules = globSync("**/*.ts", { cwd: new URL("../../../src/dashboard", import.meta.url) });
  const asked = new Set(loaded.keys());
  expect(
    modules.filter((name) => ![".ts", ".js"].some((ending) => asked.has(`${assets}${name.slice(0, -3)}${ending}`))),
  ).toEqual([]);
  const page = await (await fetch(`${proxy.url}/dashboard`)).text();
  const named = [...page.matchAll(/"modulepreload" href="([^"]+)"/g)].map(([, path]) => `${proxy.url}${path}`);
  expect(named.toSorted()).toEqual(
    [...asked].filter((address) => /\.[jt]s$/.test(address) && !address.endsWith("/main.js")).toSorted(),
  );
  expect([...loaded.values()].filter((answer) => answer === "200 font/woff2")).toHaveLength(3);
});
