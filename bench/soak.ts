/**
 * Many streams at once, then mixed traffic for long: what of it is lost, how much memory it takes, and whether that grows.
 * The gateway (the sandbox), the proxy (`serve`, with a key and two hard budgets) and the clients are processes of their own.
 *
 *   node bench/soak.ts --streams 2000 --hold-minutes 3 --minutes 20
 *
 * It stops by itself, and exits with 1 where a request is lost or the ledger does not agree.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { spreadOf } from "./statistics.ts";

const { values: options } = parseArgs({
  options: {
    streams: { type: "string", default: "2000" },
    "hold-minutes": { type: "string", default: "3" },
    minutes: { type: "string", default: "20" },
  },
});
const streams = Number(options.streams);
const holdMs = Number(options["hold-minutes"]) * 60_000;
const soakMs = Number(options.minutes) * 60_000;

const bin = fileURLToPath(new URL("../bin/farebox.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "farebox-soak-"));
const gatewayKey = "sk-sandbox";
const database = join(folder, "farebox.db");
const kept = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("FAREBOX_"))) as Record<
  string,
  string
>;
const children: ChildProcess[] = [];

/** Starts a command and waits for the address that it prints. */
async function listening(
  args: readonly string[],
  env: Record<string, string>,
): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const child = spawn(process.execPath, [bin, ...args], {
    env: { ...kept, ...env },
    stdio: ["ignore", "pipe", "ignore"],
  });
  children.push(child);
  let text = "";
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
      if (found !== undefined) resolve(found);
    });
    child.once("exit", () => reject(new Error(`farebox ${args.join(" ")} ended: ${text}`)));
  });
  return { url, child };
}

async function run(...args: string[]): Promise<string> {
  const child = spawn(process.execPath, [bin, ...args, "--database", database], {
    env: kept,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) chunks.push(chunk);
  if (child.exitCode === null) await once(child, "exit");
  return Buffer.concat(chunks).toString();
}

const agent = new Agent({ keepAlive: true, maxSockets: Infinity, timeout: 120_000 });
const counts = { sent: 0, whole: 0, left: 0, wrong: 0 };
const wrongs = new Map<string, number>();

interface Sent {
  readonly scenario: string;
  readonly stream: boolean;
  readonly words?: number;
  /** Leaves after so many bytes. */
  readonly leavesAfter?: number;
}

/** Sends one request and reads its answer to the end, unless it is to leave. */
function ask(url: string, key: string, { scenario, stream, words = 5, leavesAfter = Infinity }: Sent): Promise<void> {
  counts.sent++;
  const content = `${"a word and another ".repeat(words)}\n#sandbox ${scenario}`;
  const body = JSON.stringify({
    model: "gpt-4o-mini",
    messages: [{ role: "user", content }],
    max_tokens: 200,
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  });
  return new Promise((resolve) => {
    const end = (outcome: "whole" | "left" | "wrong", why = "") => {
      counts[outcome]++;
      if (why !== "") wrongs.set(why, (wrongs.get(why) ?? 0) + 1);
      resolve();
    };
    let isAnswered = false;
    const sent = httpRequest(
      `${url}/v1/chat/completions`,
      {
        method: "POST",
        agent,
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
        },
      },
      (response) => {
        isAnswered = true;
        let bytes = 0;
        let tail = "";
        response.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
          tail = (tail + chunk.toString("latin1")).slice(-64);
          if (bytes > leavesAfter) sent.destroy();
        });
        response.once("close", () => {
          if (bytes > leavesAfter) return end("left");
          const isWhole = response.complete && response.statusCode === 200 && (!stream || tail.includes("[DONE]"));
          return isWhole
            ? end("whole")
            : end("wrong", `${response.statusCode} ${response.complete} ${tail.slice(-40)}`);
        });
      },
    );
    sent.once("error", (error: NodeJS.ErrnoException) =>
      isAnswered ? undefined : end("wrong", error.code ?? error.message),
    );
    sent.end(body);
  });
}

interface Look {
  readonly atMs: number;
  readonly rssMb: number;
  readonly heapMb: number;
  readonly lagP99Ms: number;
  readonly active: number;
}

async function look(url: string, startedAt: number): Promise<Look> {
  const page = await (await fetch(`${url}/metrics`)).text();
  const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(page)?.[1] ?? Number.NaN);
  const mb = 1024 * 1024;
  return {
    atMs: performance.now() - startedAt,
    rssMb: value("process_resident_memory_bytes") / mb,
    heapMb: value("nodejs_heap_size_used_bytes") / mb,
    lagP99Ms: value("nodejs_eventloop_lag_p99_seconds") * 1000,
    active: value("farebox_active_streams"),
  };
}

const median = (values: readonly number[]): number => spreadOf(values).median;

try {
  const sandbox = await listening(["sandbox", "--port", "0"], {});
  const key = (await run("keys", "create", "soak")).trim();
  await run("budgets", "set", "all", "1000000", "--per", "1mo");
  await run("budgets", "set", "key:soak", "100000", "--per", "1d");
  const serve = await listening(["serve"], {
    FAREBOX_GATEWAY_URL: sandbox.url,
    FAREBOX_GATEWAY_API_KEY: gatewayKey,
    FAREBOX_DATABASE: database,
    FAREBOX_PORT: "0",
    FAREBOX_LOG_LEVEL: "error",
  });
  const { url } = serve;
  const startedAt = performance.now();
  const looks: Look[] = [];
  const looking = setInterval(
    () =>
      void look(url, startedAt).then(
        (each) => looks.push(each),
        () => undefined,
      ),
    5_000,
  );
  const running = new Set<Promise<void>>();
  const start = (sent: Sent) => {
    const work: Promise<void> = ask(url, key, sent).finally(() => running.delete(work));
    running.add(work);
    return work;
  };
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  // Each stream is followed by the next, so that as many run all the time; begun over one pace, so that they do not beat together.
  const holdUntil = startedAt + holdMs;
  const hold = async (index: number) => {
    await pause((index / streams) * 10_000);
    while (performance.now() < holdUntil) await start({ scenario: "bench:40+slow:500", stream: true });
  };
  await Promise.all(Array.from({ length: streams }, (_, index) => hold(index)));
  const held = looks.filter(({ active }) => active >= streams * 0.9);
  const heldCounts = { ...counts };

  const soakFrom = performance.now();
  const kinds: readonly (readonly [everyMs: number, sent: Sent])[] = [
    [40, { scenario: "bench:20", stream: false }],
    [40, { scenario: "bench:100+slow:50", stream: true }],
    [300, { scenario: "bench:20", stream: false, words: 5_000 }],
    [200, { scenario: "no-usage+tokens:60", stream: true }],
    [500, { scenario: "bench:200+slow:20", stream: true, leavesAfter: 5_000 }],
  ];
  const timers = kinds.map(([everyMs, sent]) => setInterval(() => void start(sent), everyMs));
  await pause(soakMs);
  for (const timer of timers) clearInterval(timer);
  await Promise.all(running);
  const soaked = looks.filter(
    ({ atMs }) => startedAt + atMs > soakFrom + 60_000 && startedAt + atMs < soakFrom + soakMs,
  );
  clearInterval(looking);
  serve.child.kill("SIGTERM");
  const [code] = (await once(serve.child, "exit")) as [number | null];

  const report = JSON.parse(await run("report", "--since", "7d", "--json")) as { total: { requests: number } };
  const charges = JSON.parse(await run("charges", "--state", "pending", "--json")) as { charges: unknown[] };
  const verified = JSON.parse(await run("verify", "--json")) as { ok: boolean; charges: number };
  const figure = (each: readonly Look[], of: (one: Look) => number) =>
    each.length === 0 ? "-" : `median ${median(each.map(of)).toFixed(1)}, most ${Math.max(...each.map(of)).toFixed(1)}`;
  const least = (each: readonly Look[]) => Math.min(...each.map(({ heapMb }) => heapMb)).toFixed(1);
  const quarters = [0, 1, 2, 3].map((part) =>
    soaked.slice(Math.floor((part * soaked.length) / 4), Math.floor(((part + 1) * soaked.length) / 4)),
  );
  const agrees =
    report.total.requests === counts.sent &&
    charges.charges.length === 0 &&
    verified.ok &&
    counts.wrong === 0 &&
    code === 0;
  process.stdout.write(
    [
      `${streams} streams held for ${options["hold-minutes"]} min: ${heldCounts.sent} requests, ${heldCounts.wrong} wrong`,
      `  resident memory MB      ${figure(held, ({ rssMb }) => rssMb)}; ${((median(held.map(({ rssMb }) => rssMb)) * 1024) / streams).toFixed(0)} kB a stream, all in all`,
      `  event loop's lag p99 ms ${figure(held, ({ lagP99Ms }) => lagP99Ms)} (of five seconds each)`,
      `mixed traffic for ${options.minutes} min: ${counts.sent - heldCounts.sent} requests`,
      `  resident memory MB      ${figure(soaked, ({ rssMb }) => rssMb)}`,
      `  heap MB after collection, least of each quarter: ${quarters.map(least).join(", ")}`,
      `  event loop's lag p99 ms ${figure(soaked, ({ lagP99Ms }) => lagP99Ms)}`,
      `clients: ${counts.sent} sent, ${counts.whole} whole, ${counts.left} left, ${counts.wrong} wrong ${JSON.stringify(Object.fromEntries(wrongs))}`,
      `ledger: ${report.total.requests} posted, ${charges.charges.length} pending, verify ${verified.ok ? "agrees" : "differs"} on ${verified.charges}; serve ended with ${code}`,
      agrees ? "nothing was lost" : "SOMETHING DOES NOT AGREE",
      "",
    ].join("\n"),
  );
  process.exitCode = agrees ? 0 : 1;
} finally {
  agent.destroy();
  for (const child of children) if (child.exitCode === null) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
