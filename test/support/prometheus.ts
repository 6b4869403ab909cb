import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "./free-port.ts";
import { until } from "./until.ts";

/** A real Prometheus that scrapes one target under the job `farebox`; disposing of it ends it. */
export interface Prometheus extends AsyncDisposable {
  readonly scrapeS: number;
  /** Returns the newest value of each series, as of `at` in seconds since 1970; default now. */
  instant(expression: string, at?: number): Promise<Series[]>;
  /** Returns the values from `since` until `until`, in seconds since 1970, one every `stepS`. */
  range(
    expression: string,
    span: { readonly since: number; readonly until: number; readonly stepS: number },
  ): Promise<Series[]>;
  /** Returns the labels of the exemplars of a selector's series. */
  exemplars(selector: string): Promise<Readonly<Record<string, string>>[]>;
  /** Waits for a successful scrape that began after this call. Returns its time, in seconds since 1970. */
  scraped(): Promise<number>;
}

export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** Time in seconds since 1970, and the value at that time. */
  readonly samples: readonly (readonly [at: number, value: number])[];
}

interface Answer<Data> {
  readonly status: string;
  readonly error?: string;
  readonly data: Data;
}

interface Found {
  readonly result: readonly {
    readonly metric: Record<string, string>;
    readonly value?: [number, string];
    readonly values?: [number, string][];
  }[];
}

type FoundExemplars = readonly { readonly exemplars: readonly { readonly labels: Record<string, string> }[] }[];

/** Past scrapes, for a Prometheus that scrapes nothing. */
export interface PastScrapes {
  /** File in the OpenMetrics format, with timestamps. */
  readonly file: string;
  /** Seconds between two scrapes. */
  readonly scrapeS: number;
}

/** Starts a Prometheus. `target` is a base address whose /metrics is scraped every two seconds, or past scrapes. */
export async function startPrometheus(target: string | PastScrapes): Promise<Prometheus> {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "farebox-prometheus-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const isLive = typeof target === "string";
  // A scrape must end before the next one. Two seconds are enough on a busy machine, too.
  const scrapeS = isLive ? 2 : target.scrapeS;
  const jobs = isLive ? [{ job_name: "farebox", static_configs: [{ targets: [new URL(target).host] }] }] : [];
  const data = join(folder, "data");
  // One block for the whole time: by default promtool reads the file once for every two hours.
  if (!isLive)
    await promisify(execFile)("promtool", [
      "tsdb",
      "create-blocks-from",
      "openmetrics",
      "--quiet",
      "--max-block-duration=1440h",
      target.file,
      data,
    ]);
  const config = join(folder, "prometheus.yml");
  // JSON is YAML.
  await writeFile(config, JSON.stringify({ global: { scrape_interval: `${scrapeS}s` }, scrape_configs: jobs }));
  const address = `127.0.0.1:${await freePort()}`;
  const child = spawn(
    "prometheus",
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${data}`,
      "--storage.tsdb.retention.time=100d",
      // Prometheus drops a value after five minutes without a scrape. cspell:ignore lookback
      `--query.lookback-delta=${Math.max(300, 2 * scrapeS)}s`,
      `--web.listen-address=${address}`,
      "--enable-feature=exemplar-storage",
      "--log.level=warn",
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  let stderr = "";
  child.stderr.on("data", (piece: Buffer) => (stderr += piece.toString()));
  const ended = once(child, "exit");
  owned.defer(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`Prometheus ended: ${stderr}`);
    return fetch(`http://${address}/-/ready`).then(
      (answer) => answer.ok,
      () => false,
    );
  }, "Prometheus is ready");
  const queryApi = async <Data>(path: string, parameters: Record<string, string>): Promise<Data> => {
    const response = await fetch(`http://${address}/api/v1/${path}`, {
      method: "POST",
      body: new URLSearchParams(parameters),
    });
    const answer = (await response.json()) as Answer<Data>;
    if (answer.status !== "success") throw new Error(`${parameters["query"]}: ${answer.error}`);
    return answer.data;
  };
  const querySeries = async (path: string, parameters: Record<string, string>): Promise<Series[]> => {
    const { result } = await queryApi<Found>(path, parameters);
    return result.map(({ metric, value, values }) => ({
      labels: metric,
      samples: (values ?? (value === undefined ? [] : [value])).map(([at, text]) => [at, Number(text)] as const),
    }));
  };
  const instant = (query: string, at = Date.now() / 1000) => querySeries("query", { query, time: String(at) });
  const kept = owned.move();
  return {
    scrapeS,
    instant,
    range: (query, { since, until, stepS }) =>
      querySeries("query_range", { query, start: String(since), end: String(until), step: String(stepS) }),
    async exemplars(query) {
      const found = await queryApi<FoundExemplars>("query_exemplars", {
        query,
        start: "0",
        end: String(Date.now() / 1000 + 1),
      });
      return found.flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels));
    },
    async scraped() {
      const from = Date.now() / 1000;
      let at = 0;
      await until(async () => {
        const [last] = await instant("timestamp(up) and up == 1");
        at = last?.samples[0]?.[1] ?? 0;
        return at > from;
      }, "Prometheus has scraped");
      return at;
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
