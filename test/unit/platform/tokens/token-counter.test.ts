import type { Worker } from "node:worker_threads";
import { get_encoding } from "tiktoken";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { startCountingThread } from "../../../../src/platform/tokens/counting-thread.ts";
import type { JobBatch } from "../../../../src/platform/tokens/turns.ts";
import { createTokenCounter, type TokenCounterOptions } from "../../../../src/platform/tokens/token-counter.ts";
import { size } from "../../../support/effort.ts";
import { chatOf, publishedExamples } from "./cookbook.ts";
import { noChat } from "../../../../src/wire/prompt-text.ts";

const encodings = ["o200k_base", "cl100k_base"] as const;
const busy = { ok: false, reason: "busy" };
const tokens = (count: number) => ({ ok: true, tokens: count });

/** Creates a counter that records its threads and the batches for them. The first `idle` threads receive no batch. */
function watchedCounter(options: TokenCounterOptions = {}, idle = 0) {
  const threads: Worker[] = [];
  const batches: JobBatch[] = [];
  const deaths: unknown[] = [];
  const counter = createTokenCounter({
    startThread: () => {
      const thread = startCountingThread();
      const post = thread.postMessage.bind(thread);
      const isIdle = threads.length < idle;
      thread.postMessage = (batch: JobBatch) => {
        batches.push(batch);
        if (!isIdle) post(batch);
      };
      threads.push(thread);
      return thread;
    },
    log: { warn: (fields) => deaths.push("err" in fields ? fields.err : "no error") },
    ...options,
  });
  onTestFinished(() => counter[Symbol.asyncDispose]());
  return { counter, threads, batches, deaths };
}

describe("a token counter", () => {
  const counter = createTokenCounter();
  afterAll(() => counter[Symbol.asyncDispose]());

  it.each(publishedExamples)("reproduces the published counts of $title", async ({ chat, tokens: published }) => {
    for (const encoding of encodings) {
      expect(await counter.countChat(chat, encoding)).toEqual(tokens(published[encoding]));
    }
  });

  it("counts a chat, including its template, only up to the given limit", async () => {
    const chat = chatOf([{ role: "user", content: "word ".repeat(300) }], []);
    const whole = await counter.countChat(chat, "o200k_base");
    expect(whole).toEqual(tokens(308));
    expect(await counter.countChat(chat, "o200k_base", 1000)).toEqual(whole);
    expect(await counter.countChat(chat, "o200k_base", 100)).toEqual(tokens(100));
    expect(await counter.countChat(chat, "o200k_base", 3)).toEqual(tokens(3));
  });

  it("counts the text of special tokens as plain text", async () => {
    for (const encoding of encodings) {
      expect(await counter.countText("<|endoftext|>", encoding)).toEqual(tokens(7));
    }
  });

  it("counts a lone surrogate like the replacement character", async () => {
    for (const encoding of encodings) {
      expect(await counter.countText("a\ud800b", encoding)).toEqual(await counter.countText("a\ufffdb", encoding));
    }
  });

  it("counts an empty text as 0 without a thread", async () => {
    const { counter, threads } = watchedCounter();
    expect(await counter.countText("", "o200k_base")).toEqual(tokens(0));
    const empty = { ...noChat, texts: ["", ""], messages: 2 };
    expect(await counter.countChat(empty, "o200k_base")).toEqual(tokens(9));
    expect(threads).toHaveLength(0);
  });

  it("prepares each encoding only once", async () => {
    const { counter, threads, batches } = watchedCounter();
    for (const encoding of ["o200k_base", "o200k_base", "cl100k_base"] as const) counter.prepare(encoding);
    await counter.countText("one", "o200k_base");
    expect(batches.flat().map(({ encoding, texts }) => [encoding, ...texts])).toEqual([
      ["o200k_base", " "],
      ["cl100k_base", " "],
      ["o200k_base", "one"],
    ]);
    expect(threads).toHaveLength(1);
  });

  it.each([
    ["letters", "a", size(1_000_000, 200_000), 1 / 8],
    // Counted as a whole, 150,000 of them would take two minutes.
    ["Chinese without punctuation", "中", size(150_000, 30_000), 1],
    ["combining marks", "\u0301", size(100_000, 20_000), 1],
    ["spaces", " ", 100_000, 1 / 128],
    ["lone surrogates", "\ud800", size(100_000, 20_000), 1 / 8],
    ["surrogate pairs", "😀", size(100_000, 20_000), 1],
  ])("counts many %s, which a tokenizer cannot count as a whole", async (_name, unit, times, each) => {
    expect(await counter.countText(unit.repeat(times), "o200k_base")).toEqual(tokens(Math.ceil(times * each)));
  });

  it("answers a short text before an earlier long one", async () => {
    const { counter } = watchedCounter();
    const order: string[] = [];
    const long = counter.countText("a ".repeat(100_000), "o200k_base").then(() => order.push("long"));
    const short = counter.countText("hello", "o200k_base").then(() => order.push("short"));
    await Promise.all([long, short]);
    expect(order).toEqual(["short", "long"]);
  });

  it("counts a long text as the tokenizer does", async () => {
    const text = "It's a naïve café, 東京!  \r\n".repeat(300);
    const whole = get_encoding("o200k_base").encode_ordinary(text).length;
    expect(await counter.countText(text, "o200k_base")).toEqual(tokens(whole));
  });
});

describe("the queue to the counting thread", () => {
  it("sends the calls of one tick together, and then those that arrive while the thread is busy", async () => {
    const { counter, batches } = watchedCounter();
    const countTexts = (times: number) =>
      Array.from({ length: times }, (_, n) => counter.countText(`text ${n}`, "o200k_base"));
    const first = countTexts(100);
    await Promise.resolve();
    const second = countTexts(200);
    await Promise.resolve();
    const third = countTexts(300);
    await Promise.all([...first, ...second, ...third]);
    expect(batches.map((batch) => batch.length)).toEqual([100, 500]);
  });

  it("refuses calls beyond its item limit, and accepts calls again once earlier ones are answered", async () => {
    const { counter } = watchedCounter({ queueItemsMax: 2 });
    const countTexts = () => Promise.all(["a", "b", "c"].map((text) => counter.countText(text, "o200k_base")));
    expect(await countTexts()).toEqual([tokens(1), tokens(1), busy]);
    expect(await countTexts()).toEqual([tokens(1), tokens(1), busy]);
  });

  it("refuses calls beyond its memory, and accepts calls again once earlier ones are answered", async () => {
    const { counter } = watchedCounter({ queueBytesMax: 3_000 });
    const text = "a b ".repeat(250);
    const countTexts = () => Promise.all([text, text].map((each) => counter.countText(each, "o200k_base")));
    const counted = expect.objectContaining({ ok: true });
    expect(await countTexts()).toEqual([counted, busy]);
    expect(await countTexts()).toEqual([counted, busy]);
    const message = { role: "user", content: text };
    expect(await counter.countChat(chatOf([message, message], []), "o200k_base")).toEqual(busy);
  });
});

describe("the thread of a token counter", () => {
  it("is replaced when it dies, and the next one answers its calls", async () => {
    const { counter, threads, deaths } = watchedCounter({}, 1);
    const pending = [counter.countText("a ".repeat(50_000), "o200k_base"), counter.countText("b", "cl100k_base")];
    await Promise.resolve();
    await threads[0]?.terminate();
    expect(await Promise.all(pending)).toEqual([tokens(50_001), tokens(1)]);
    expect(threads).toHaveLength(2);
    expect(deaths).toEqual([undefined]);
  });

  it("is restarted by the first call after it died while idle", async () => {
    const { counter, threads } = watchedCounter();
    await counter.countText("a", "o200k_base");
    await threads[0]?.terminate();
    expect(await counter.countText("a", "o200k_base")).toEqual(tokens(1));
    expect(threads).toHaveLength(2);
  });

  it("is replaced once for a call, which is answered busy if the second one dies, too", async () => {
    const { counter, threads, deaths } = watchedCounter({}, 2);
    const pending = counter.countText("a", "o200k_base");
    await Promise.resolve();
    await threads[0]?.terminate();
    await threads[1]?.terminate();
    expect(await pending).toEqual(busy);
    expect(deaths).toHaveLength(2);
    expect(await counter.countText("a", "o200k_base")).toEqual(tokens(1));
  });

  it("leaves every call answered busy if it cannot be started", async () => {
    const failure = new Error("no threads left");
    const { counter, deaths } = watchedCounter({
      startThread: () => {
        throw failure;
      },
    });
    expect(await counter.countText("a", "o200k_base")).toEqual(busy);
    expect(await counter.countText("a", "o200k_base")).toEqual(busy);
    expect(deaths).toEqual([failure, failure, failure, failure]);
  });

  it("ends with the counter, which then answers busy", async () => {
    const { counter, threads, deaths } = watchedCounter({}, 1);
    const pending = counter.countText("a ".repeat(50_000), "o200k_base");
    await Promise.resolve();
    const gathering = counter.countText("b", "o200k_base");
    await counter[Symbol.asyncDispose]();
    expect(await Promise.all([pending, gathering])).toEqual([busy, busy]);
    expect(await counter.countText("a", "o200k_base")).toEqual(busy);
    expect(threads.map(({ threadId }) => threadId)).toEqual([-1]);
    expect(deaths).toHaveLength(0);
  });
});
