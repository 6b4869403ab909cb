import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { startServe, temporaryFolder } from "../../support/farebox-process.ts";

const preload = fileURLToPath(new URL("../../support/loaded-modules.cjs", import.meta.url));

/** Packages that only parts load which few proxies need. */
const later = [
  "@fontsource-variable/geist",
  "@opentelemetry/core",
  "@opentelemetry/exporter-trace-otlp-proto",
  "@opentelemetry/resources",
  "@opentelemetry/sdk-trace",
  "js-yaml",
  "pg",
  "pino-pretty",
  "preact",
  "tiktoken",
  "undici",
  "uplot",
  "yaml",
  "zod",
];
/** Modules with which the threads of a proxy start, each with the packages that it may load. */
const threads: Readonly<Record<string, readonly string[]>> = {
  "catalogue/worker.ts": ["js-yaml", "lru-cache", "yaml", "zod"],
  "ledger/sqlite/worker.ts": ["better-sqlite3", "temporal-polyfill", "temporal-utils"],
};
/** Modules that answer the first request of their kind. */
const loadedByRequests = [
  "reporting/overview.ts",
  "server/http/admin/routes.ts",
  "server/http/dashboard/session-routes.ts",
  "server/http/run-sessions.ts",
  "server/http/self-service.ts",
];

interface Loaded {
  /** Paths of modules in `src`. */
  readonly modules: readonly string[];
  readonly packages: readonly string[];
}

/** Returns what each thread has loaded; the main thread is the first one. */
function loadedIn(file: string): readonly Loaded[] {
  const urls = new Map<string, string[]>();
  for (const line of readFileSync(file, "utf8").trimEnd().split("\n")) {
    const [thread = "", url = ""] = line.split(" ");
    urls.set(thread, [...(urls.get(thread) ?? []), url]);
  }
  const matches = (all: readonly string[], pattern: RegExp) => [
    ...new Set(all.flatMap((url) => pattern.exec(url)?.[1] ?? [])),
  ];
  return [...urls]
    .toSorted(([one], [other]) => Number(one) - Number(other))
    .map(([, all]) => ({
      modules: matches(all, /\/src\/(.+)$/),
      packages: matches(all, /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/),
    }));
}

it("serve loads what its first request needs, and the rest with the request that needs it", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const file = join(folder.path, "loaded.txt");
  await using serve = await startServe({
    database: join(folder.path, "farebox.db"),
    gateway: sandbox,
    fromSources: true,
    env: {
      FAREBOX_AUTH: "open",
      FAREBOX_ADMIN_TOKEN: "admin-token-0123456789",
      LOADED_MODULES: file,
      NODE_OPTIONS: `--require=${preload}`,
    },
  });
  const answer = await fetch(`${serve.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "gpt-4o-mini", messages: [{ role: "user", content: "hi" }] }),
  });
  expect(answer.status).toBe(200);
  await answer.text();
  for (const path of ["/healthz", "/readyz", "/metrics"]) expect((await fetch(serve.url + path)).status).toBe(200);

  const [main, ...others] = loadedIn(file);
  expect(main?.packages).toContain("express");
  expect(later.filter((name) => main?.packages.includes(name))).toEqual([]);
  expect(loadedByRequests.filter((module) => main?.modules.includes(module))).toEqual([]);
  const unexpected = others.map(({ modules, packages }) => {
    const [entry = "", allowed = []] = Object.entries(threads).find(([module]) => modules.includes(module)) ?? [];
    return [entry, packages.filter((name) => !allowed.includes(name))];
  });
  expect(unexpected).toEqual(unexpected.map(([entry]) => [entry, []]));
  expect(unexpected.filter(([entry]) => entry === "")).toEqual([]);
  expect(others.filter(({ modules }) => modules.includes("ledger/sqlite/writer.ts"))).toHaveLength(1);
  expect(others.filter(({ modules }) => modules.includes("catalogue/worker.ts"))).toHaveLength(1);

  const headers = { authorization: "Bearer admin-token-0123456789" };
  expect((await fetch(`${serve.url}/admin/v1/keys`, { headers })).status).toBe(200);
  expect(loadedIn(file)[0]?.modules).toContain("server/http/admin/routes.ts");
});
