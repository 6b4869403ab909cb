import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../support/farebox-process.ts";
import { skipWithout } from "../support/programs.ts";
import { proxyWithEverything } from "./everything.ts";

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** A real Prometheus that scrapes one target twice a second; disposing of it ends it. */
async function prometheusOf(folder: string, target: string): Promise<AsyncDisposable & { get(path: string): Promise<unknown> }> {
  const port = await freePort();
  const config = { global: { scrape_interval: "500ms", scrape_timeout: "400ms" }, scrape_configs: [{ job_name: "farebox", static_configs: [{ targets: [target] }] }] };
  await writeFile(join(folder, "prometheus.yml"), JSON.stringify(config));
  const child = spawn("prometheus", [
    `--config.file=${join(folder, "prometheus.yml")}`, `--storage.tsdb.path=${join(folder, "data")}`, `--web.listen-address=127.0.0.1:${port}`,
    "--enable-feature=exemplar-storage", "--log.level=error",
  ], { stdio: "ignore" });
  return {
    // Not there until it listens.
    get: async (path) => (await (await fetch(`http://127.0.0.1:${port}/api/v1/${path}`).catch(() => null))?.json().catch(() => null)) as unknown,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}

interface Exemplars {
  readonly data: readonly { readonly seriesLabels: Record<string, string>; readonly exemplars: readonly { readonly labels: Record<string, string> }[] }[];
}

describe.skipIf(skipWithout("prometheus", "prometheus"))("a real Prometheus", () => {
  it("takes the page as OpenMetrics, and the exemplars lead to the charges", { timeout: 30_000 }, async () => {
    await using folder = await temporaryFolder();
    await using proxy = await proxyWithEverything({ FAREBOX_METRICS_OTEL: "1" });
    await using prometheus = await prometheusOf(folder.path, new URL(proxy.url).host);
    const query = 'query_exemplars?query=farebox_request_duration_seconds_bucket{model="gpt-4o"}&start=0&end=4102444800';
    let found = (await prometheus.get(query)) as Exemplars | null;
    for (; (found?.data.length ?? 0) === 0; found = (await prometheus.get(query)) as Exemplars | null) await pause(100);
    const ids = new Set((await proxy.charges()).map(({ id }) => id));
    const seen = (found?.data ?? []).flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels["request_id"] ?? ""));
    expect(seen.length).toBeGreaterThan(0);
    for (const id of seen) expect(ids).toContain(id);
    const { data } = (await prometheus.get("targets")) as { data: { activeTargets: unknown[] } };
    expect(data.activeTargets).toMatchObject([{ health: "up", lastError: "" }]);
    const { data: counters } = (await prometheus.get("query?query=farebox_key_requests_total")) as { data: { result: { value: unknown[] }[] } };
    expect(counters.result.map(({ value }) => value[1])).toEqual(["2"]);
  });
});
