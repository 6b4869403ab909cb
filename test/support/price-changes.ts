import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect } from "vitest";
import { usd } from "../../src/core/money.ts";
import { answeringGateway, type Answering, type ReceivedRequest } from "./answering-gateway.ts";
import { replaceFile } from "./price-files.ts";
import { delta, done, finish, usageChunk } from "./scripted-gateway.ts";
import { record } from "./task-records.ts";
import { fetchAnswer } from "./wire-client.ts";

/** Number of price versions. The second version's prices are twice the first's, and so on. */
const versions = 4;
const file = "mine.yaml";
const model = (name: string, more: string) => `  ${name}:\n${more}`;

function priceFile(version: number): string {
  return `provider: example
models:
${model(
  "mine",
  `    tokenizer: o200k_base
    context_tokens: 10000
    max_output_tokens: 1000
    reasoning: false
    prices:
      - { from: 2026-01-01, source: "made up for a test", official: { input: "${version}", output: "${4 * version}" }, gateway: { input: "${version}", output: "${4 * version}" } }
`,
)}${model(
    "kling",
    `    tasks:
      video_generation:
        - { from: 2026-01-01, source: "made up for a test", official: "${version}", gateway: "${version}" }
`,
  )}`;
}

/** Costs at the first version, of a request with 9 tokens in and 3 out, and of a task. */
const unit = { request: usd("0.000021"), task: usd("1") } as const;

const json = { "content-type": "application/json" };
const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };

/** Starts a gateway that keeps each POST waiting until the test releases it, except those of the user "now". */
async function waitingGateway() {
  let tasks = 0;
  const waiting: (() => void)[] = [];
  const watchers = new Set<() => void>();
  const answerTo = ({ method, path, body }: ReceivedRequest): Answering => {
    if (path.startsWith("/api/v1/task")) {
      const id = method === "POST" ? `t-${tasks++}` : path.slice("/api/v1/task/".length);
      // The units have no known value, so the task costs what its price states.
      return {
        headers: json,
        body:
          method === "POST"
            ? record(id, "pending")
            : record(id, "completed", { usage: { type: "jobs", frozen: 0, consume: 1 } }),
      };
    }
    if (body.includes('"stream":true'))
      return {
        headers: { "content-type": "text/event-stream" },
        body: delta("Hi.", { model: "mine" }) + finish({ model: "mine" }) + usageChunk({ model: "mine" }) + done,
      };
    if (path === "/v1/responses")
      return {
        headers: json,
        body: JSON.stringify({
          object: "response",
          model: "mine",
          status: "completed",
          output: [],
          usage: { input_tokens: 9, output_tokens: 3, total_tokens: 12 },
        }),
      };
    return {
      headers: json,
      body: JSON.stringify({
        model: "mine",
        choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
        usage,
      }),
    };
  };
  const gateway = await answeringGateway(async (received) => {
    if (received.method === "POST" && !received.body.includes('"user":"now"')) {
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        for (const watcher of watchers) watcher();
      });
    }
    return answerTo(received);
  });
  return {
    url: gateway.url,
    async waitFor(count: number): Promise<void> {
      await new Promise<void>((resolve) => {
        const check = () => {
          if (waiting.length < count) return;
          watchers.delete(check);
          resolve();
        };
        watchers.add(check);
        check();
      });
    },
    /** Answers this many of the oldest waiting requests. */
    release(count: number): void {
      for (const answer of waiting.splice(0, count)) answer();
    },
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

type WaitingGateway = Awaited<ReturnType<typeof waitingGateway>>;

interface ChangingPrices extends AsyncDisposable {
  readonly gateway: WaitingGateway;
}

export async function openChangingPrices(folder: string): Promise<ChangingPrices> {
  await writeFile(join(folder, file), priceFile(1));
  const gateway = await waitingGateway();
  return { gateway, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
}

/**
 * Changes the prices repeatedly while requests and tasks run. Each batch is answered two versions later, or after the
 * last one; before each change the file is half-written, then faulty. `notice` triggers a reload in addition to the
 * notification of the file system.
 */
export async function changePricesUnderLoad(
  { gateway }: ChangingPrices,
  proxy: { readonly url: string; readonly key: string; readonly folder: string; notice?(): void },
): Promise<void> {
  const chat = { model: "mine", messages: [{ role: "user", content: "hello" }], max_tokens: 50 };
  const send = (batch: string, body: object, path = "/v1/chat/completions") =>
    fetchAnswer(proxy, body, { path, headers: { "x-farebox-tag": `batch=${batch}` } });
  const now = () => send("now", { ...chat, user: "now" });
  const batchOf = (version: number) => [
    send(String(version), chat),
    send(String(version), { ...chat, stream: true, stream_options: { include_usage: true } }),
    send(String(version), { ...chat, stream: true }),
    send(String(version), { model: "mine", input: "hello", max_output_tokens: 50 }, "/v1/responses"),
    send(
      String(version),
      { model: "kling", task_type: "video_generation", input: { prompt: "a fox" } },
      "/api/v1/task",
    ),
    send(
      String(version),
      { model: "kling", task_type: "video_generation", input: { prompt: "a fox" } },
      "/api/v1/task",
    ),
  ];
  const running: ReturnType<typeof send>[] = [];
  let waiting = 0;
  for (let version = 1; version <= versions; version++) {
    if (version > 1) {
      const text = priceFile(version);
      await writeFile(join(proxy.folder, file), text.slice(0, text.length / 2));
      await now();
      await writeFile(join(proxy.folder, file), text.replace("reasoning:", "reasonin:"));
      await now();
      await replaceFile(proxy.folder, file, text);
      proxy.notice?.();
    }
    const wanted = Number(unit.request) * version;
    // Every process has the prices once several parallel requests are charged at them.
    for (let costs = [0]; costs.some((cost) => cost !== wanted);) {
      const answers = await Promise.all(Array.from({ length: 4 }, now));
      costs = answers.map(({ headers }) => Number(usd(String(headers["x-farebox-cost-usd"]))));
    }
    const batch = batchOf(version);
    running.push(...batch);
    waiting += batch.length;
    await gateway.waitFor(waiting);
    if (version <= 2) continue;
    gateway.release(batch.length);
    waiting -= batch.length;
  }
  gateway.release(waiting);
  for (const answer of await Promise.all(running)) {
    expect([answer.status, answer.broken]).toEqual([200, null]);
    const task = /"task_id":"(t-\d+)"/.exec(answer.body.toString())?.[1];
    if (task !== undefined)
      expect((await fetchAnswer(proxy, undefined, { method: "GET", path: `/api/v1/task/${task}` })).status).toBe(200);
  }
}

interface Row {
  readonly kind: "request" | "task";
  readonly route: string;
  readonly state: string;
  readonly source: string;
  readonly cost: bigint;
  readonly hold: bigint;
  readonly price_id: string;
  readonly tags: string;
}

/** Checks every charge after all have settled: cost and hold are at the prices of the batch's version. */
export function expectChargesOfTheirVersions(database: string): void {
  const db = new Database(database, { readonly: true });
  const rows = db
    .prepare(
      "select kind, route, state, source, cost, hold, price_id, tags from charges where kind in ('request', 'task') order by seq",
    )
    .safeIntegers()
    .all() as Row[];
  db.close();
  const holds = new Map<string, Set<bigint>>();
  const prices = new Map<string, bigint>();
  for (const { kind, route, state, cost, hold, price_id: price, tags } of rows) {
    expect(state).toBe("posted");
    const { batch } = JSON.parse(tags) as { batch: string };
    const version = cost / unit[kind];
    expect(cost % unit[kind], "a price that no version of the file had").toBe(0n);
    expect(version >= 1n && version <= BigInt(versions)).toBe(true);
    if (batch !== "now") expect(version).toBe(BigInt(batch));
    expect(prices.get(price) ?? version, "one stored price has one version").toBe(version);
    prices.set(price, version);
    if (kind === "task") expect(hold).toBe(version * unit.task);
    expect(hold % version, "it was held at the price at which it is posted").toBe(0n);
    const held = holds.get(`${kind} ${route} ${batch === "now"}`) ?? new Set();
    holds.set(`${kind} ${route} ${batch === "now"}`, held.add(hold / version));
  }
  const batches = new Set(rows.map(({ tags }) => (JSON.parse(tags) as { batch: string }).batch));
  expect(batches.size).toBe(versions + 1);
  // A batch has chats of three bodies: plain, and streamed in two ways.
  for (const [like, held] of holds)
    expect(held.size, like).toBeLessThanOrEqual(like.includes("chat") && like.endsWith("false") ? 3 : 1);
}
