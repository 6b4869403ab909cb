import type { RunningProxy } from "./running-proxy.ts";

/** Sends traffic that gives every panel of a dashboard something to show. */
interface MixedTraffic {
  /**
   * Sends one round of requests and reads every answer completely. An `intensity` of 1 is 18 requests; `mishaps` adds
   * 18, most of which fail.
   */
  round(options?: { readonly intensity?: number; readonly mishaps?: boolean }): Promise<void>;
  /** Keeps this many streams and their holds open until the work is done; default 1. */
  whileStreaming(work: () => Promise<void>, streams?: number): Promise<void>;
}

/** A request of a round. */
interface PlannedRequest {
  readonly who: string;
  readonly model: string;
  /** Scenario of the sandbox, as in its help. */
  readonly scenario: string;
  readonly words?: number;
  readonly outputTokens?: number;
  readonly stream?: "with usage" | "without usage";
  readonly retry?: true;
}

const everyRound: readonly PlannedRequest[] = [
  { who: "alice", model: "gpt-4o", scenario: "tokens:300+cached:100", words: 600 },
  { who: "alice", model: "gpt-4o", scenario: "tokens:120", stream: "with usage" },
  { who: "alice", model: "gpt-4o-mini", scenario: "tokens:200", retry: true },
  { who: "bob", model: "claude-sonnet-4-6", scenario: "tokens:250", words: 400, stream: "with usage" },
  { who: "bob", model: "gpt-4.1", scenario: "tokens:150", stream: "without usage" },
  { who: "bob", model: "gpt-5", scenario: "tokens:60+reasoning:200", outputTokens: 600 },
  { who: "carol", model: "gemini-2.5-flash", scenario: "tokens:400", words: 900 },
  { who: "carol", model: "claude-sonnet-4-6", scenario: "tokens:200+latency:20" },
  { who: "dave", model: "gpt-4.1", scenario: "tokens:180+cached:200", words: 500 },
];

/** Requests that fail in every way. */
const everyMishap: readonly PlannedRequest[] = [
  { who: "alice", model: "gpt-4o", scenario: "status:500" },
  { who: "bob", model: "gpt-4.1", scenario: "cut:20", stream: "without usage" },
  { who: "carol", model: "gpt-4o-mini", scenario: "reset-after-headers", outputTokens: 60 },
  { who: "dave", model: "gpt-4o", scenario: "over-limit:400", outputTokens: 40 },
  // More than the whole budget, and then enough at once to exhaust it.
  { who: "intern", model: "gpt-4o", scenario: "tokens:20" },
  ...Array.from({ length: 12 }, () => ({ who: "intern", model: "gpt-4o", scenario: "tokens:100", outputTokens: 100 })),
  { who: "stranger", model: "gpt-4o", scenario: "tokens:20" },
];

const streaming: readonly PlannedRequest[] = [
  { who: "alice", model: "gpt-4o", scenario: "endless:20", stream: "with usage" },
  { who: "bob", model: "gpt-5", scenario: "endless:30", stream: "without usage" },
  { who: "carol", model: "claude-sonnet-4-6", scenario: "endless:25", stream: "with usage" },
  { who: "dave", model: "gpt-4.1", scenario: "endless:40", stream: "with usage" },
];

/** Creates keys, teams and budgets. `scale` multiplies the limit of each budget. */
export async function prepareMixedTraffic(proxy: RunningProxy, scale = 1): Promise<MixedTraffic> {
  const keys = new Map([
    ["alice", proxy.key],
    ["stranger", "sk-fb-unknown"],
  ]);
  for (const [name, team] of [
    ["bob", "research"],
    ["carol", "product"],
    ["dave", "product"],
    ["intern", undefined],
  ] as const) {
    keys.set(name, await proxy.addKey(name, team === undefined ? {} : { team }));
  }
  const limit = (usd: number) => (usd * scale).toFixed(6);
  await proxy.budget("all", limit(0.2), "1mo");
  await proxy.budget("each-key", limit(0.1), "1mo");
  await proxy.budget("team:research", limit(0.06), "1d");
  await proxy.budget("team:product", limit(0.05), "1d");
  await proxy.budget("key:alice", limit(0.02), "1d");
  await proxy.budget("key:intern", "0.005", "1h");
  const send = async (
    { who, model, scenario, words = 20, outputTokens = 1_000, stream, retry }: PlannedRequest,
    signal?: AbortSignal,
  ) => {
    const content = `${"word ".repeat(words)}#sandbox ${scenario}`;
    const body = {
      model,
      max_tokens: outputTokens,
      messages: [{ role: "user", content }],
      ...(stream && { stream: true }),
      ...(stream === "with usage" && { stream_options: { include_usage: true } }),
    };
    const headers: Record<string, string> = retry ? { "x-stainless-retry-count": "1" } : {};
    return proxy.chat(body, { key: keys.get(who) ?? "", headers, ...(signal && { signal }) });
  };
  // A broken answer is one of the failures.
  const toItsEnd = async (planned: PlannedRequest) => {
    const answer = await send(planned);
    await answer.text().catch(() => "");
  };
  return {
    async round({ intensity = 1, mishaps = true } = {}) {
      const planned = Array.from(
        { length: Math.round(18 * intensity) },
        (_, index) => everyRound[index % everyRound.length] ?? [],
      ).flat();
      await Promise.all([...planned, ...(mishaps ? everyMishap : [])].map(toItsEnd));
    },
    async whileStreaming(work, streams = 1) {
      const leaving = new AbortController();
      const answers = await Promise.all(streaming.slice(0, streams).map((planned) => send(planned, leaving.signal)));
      const read = answers.map((answer) => answer.text().catch(() => ""));
      try {
        await work();
      } finally {
        leaving.abort();
        await Promise.all(read);
      }
    },
  };
}
