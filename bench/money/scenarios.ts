import { setTimeout as pause } from "node:timers/promises";
import type { Gateway } from "./gateway-process.ts";
import type { Ask, Outcome } from "./load.ts";
import type { ModelPrice, RunningPeer, ScenarioName } from "./peer.ts";

/** Models and prices of every scenario. The prices of gpt-4o and gpt-4o-mini are from OpenAI's list. */
export const prices: Readonly<Record<string, ModelPrice>> = {
  "gpt-4o": { input: "2.50", output: "10.00" },
  "gpt-4o-mini": { input: "0.15", output: "0.60" },
};

/** Prompt of 20 tokens in a chat. A request with an answer of 50 tokens costs 0.00055 USD. */
export const prompt = "Describe the early train to the harbour in one short and quiet paragraph";

/** Budget for 37 such requests. */
const for37 = "0.02035";
/** Budget that no scenario exhausts. */
const ample = "10";

type Request = Omit<Ask, "url" | "headers">;

/** Environment of one run of a scenario. */
export interface World {
  readonly gateway: Gateway;
  readonly peer: RunningPeer;
  /** Sends requests at once, to the peer's addresses in turn. Records the result of each request. */
  readonly send: (requests: readonly Request[], path?: string) => Promise<readonly Outcome[]>;
  /** Resolves as soon as this many clients have their answers. Throws an error after the time limit. */
  readonly answered: (clients: number, limitMs: number) => Promise<unknown>;
  /** Kills the peer at once, records the progress of the requests, and starts the peer again. */
  readonly killAndRestart: () => Promise<void>;
  /** Waits until the bill and the peer's ledger no longer change, and compares them. */
  readonly checkpoint: () => Promise<void>;
}

export interface Scenario {
  readonly title: string;
  /** Description for the page. */
  readonly about: string;
  readonly budget: string;
  /** Bill of one complete request in USD, to count refused requests that would have fit; null without a common price. */
  readonly requestUsd: string | null;
  run(world: World): Promise<void>;
}

interface Chat {
  readonly model?: string;
  readonly stream?: boolean;
  readonly maxTokens?: number;
  readonly more?: object;
}

function chat({ model = "gpt-4o", stream = false, maxTokens, more = {} }: Chat = {}): { readonly body: object } {
  return {
    body: {
      model,
      messages: [{ role: "user", content: prompt }],
      ...(stream ? { stream: true } : {}),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
      ...more,
    },
  };
}

/** Longest wait for a scenario's moment, in milliseconds. */
const momentLimitMs = 60_000;

function times<T>(count: number, value: T): readonly T[] {
  return Array.from({ length: count }, () => value);
}

function burst(title: string, about: string, request: Request): Scenario {
  return {
    title,
    about,
    budget: for37,
    requestUsd: "0.00055",
    async run({ gateway, send }) {
      await gateway.serve("tokens:50+latency:300");
      await send(times(500, request));
    },
  };
}

/** Returns a scenario with 20 parallel streams of 2,000 tokens. */
function streams(title: string, about: string, budget: string, scenario: string): Scenario {
  return {
    title,
    about,
    budget,
    requestUsd: "0.02005",
    async run({ gateway, send }) {
      await gateway.serve(`tokens:2000+${scenario}`);
      await send(times(20, chat({ stream: true })));
    },
  };
}

/** Returns a scenario that checks what the ledger records. Its budget is never exhausted. */
function onLedger(title: string, about: string, run: Scenario["run"]): Scenario {
  return { title, about, budget: ample, requestUsd: null, run };
}

/** Returns a scenario that checks the ledger after these requests to the sandbox. */
function ledger(title: string, about: string, scenario: string, requests: readonly Request[]): Scenario {
  return onLedger(title, about, async ({ gateway, send }) => {
    await gateway.serve(scenario);
    await send(requests);
  });
}

/** Returns a scenario with 20 clients. They leave 200 ms after the gateway has all their requests, when it has sent its headers. */
function leave(title: string, about: string, scenario: string): Scenario {
  return onLedger(title, about, async ({ gateway, send }) => {
    await gateway.serve(scenario);
    const clients = 20;
    const arrived = gateway.until({ requests: clients }, momentLimitMs).then(() => pause(200));
    const left = send(times(clients, { ...chat({ maxTokens: 400 }), leave: { once: arrived } }));
    await arrived;
    await left;
  });
}

const custom = {
  tools: [{ type: "custom", custom: { name: "edit", description: "Edits a file." } }],
  tool_choice: { type: "custom", custom: { name: "edit" } },
};

function kill(
  title: string,
  about: string,
  scenario: string,
  stream: boolean,
  moment: (world: World) => Promise<unknown>,
): Scenario {
  return {
    title,
    about: `${about} Then the process is started again, and 200 more requests arrive at once.`,
    budget: "0.055",
    requestUsd: "0.00055",
    async run(world) {
      const { gateway, send, checkpoint, killAndRestart } = world;
      await gateway.serve(scenario);
      const first = send(times(60, chat({ stream, maxTokens: 50 })));
      await moment(world);
      await killAndRestart();
      await first;
      await checkpoint();
      await gateway.serve("tokens:50+latency:300");
      await send(times(200, chat({ maxTokens: 50 })));
    },
  };
}

export const scenarios: Readonly<Record<ScenarioName, Scenario>> = {
  burst: burst(
    "Burst, no maximum",
    "500 requests arrive at once on a budget for 37 of them. They state no `max_tokens`.",
    chat(),
  ),
  "burst-with-retries": burst(
    "Burst, no maximum, with retries",
    "The same requests, sent by OpenAI's SDK. After 408, 409, 429 or 5xx, the SDK waits for the time in `retry-after` and sends the request again, at most twice. Other refusals, such as 402, are final.",
    { ...chat(), isRetried: true },
  ),
  "burst-max-tokens": burst(
    "Burst, `max_tokens`",
    "The same as `burst`, with `max_tokens: 50`. Every answer reaches this maximum.",
    chat({ maxTokens: 50 }),
  ),
  "streams-through-the-end": streams(
    "Streams through the end",
    "20 streams of 2,000 tokens each run at once on a budget that pays for three quarters of them.",
    "0.30075",
    "slow:4",
  ),
  "leave-before-headers": leave(
    "Client leaves before the headers",
    "20 clients leave while the gateway works on a plain answer. The gateway completes and bills it.",
    "tokens:200+latency:3000",
  ),
  "leave-half-way": ledger(
    "Client leaves half way",
    "20 clients leave after 100 of 200 tokens of a stream. The gateway bills what it wrote until it noticed that they had left.",
    "tokens:200+slow:10",
    times(20, { ...chat({ stream: true }), leave: { afterDeltas: 100 } }),
  ),
  "leave-plain": leave(
    "Client leaves during a plain answer",
    "20 clients leave after the gateway has sent the headers of a plain answer, but before it sends the body. The gateway completes and bills it.",
    "tokens:200+headers-first:3000",
  ),
  "gateway-cuts": ledger(
    "Gateway cuts the stream",
    "The gateway breaks 20 streams after 100 of 200 tokens, and bills what it wrote.",
    "tokens:200+cut:100+slow:2",
    times(20, chat({ stream: true })),
  ),
  "no-usage": ledger(
    "No usage",
    "20 plain answers and 20 streams report no usage, even if the client asks for it.",
    "tokens:200+no-usage",
    [...times(20, chat()), ...times(20, chat({ stream: true, more: { stream_options: { include_usage: true } } }))],
  ),
  "usage-not-asked": ledger(
    "Usage not asked for",
    "The clients of 20 streams do not ask for usage. The gateway reports usage only if the client asks for it.",
    "tokens:200",
    times(20, chat({ stream: true })),
  ),
  "custom-tool": ledger(
    "Output of a custom tool",
    "20 answers and 20 streams consist of one call of a custom tool (`type: custom`), and report no usage.",
    "tokens:200+no-usage",
    [...times(20, chat({ more: custom })), ...times(20, chat({ stream: true, more: custom }))],
  ),
  "one-burst": streams(
    "Streams in one burst",
    "20 streams arrive at once on a budget for five. The gateway writes each answer of 2,000 tokens in one burst.",
    "0.10025",
    "latency:300",
  ),
  "other-model": ledger(
    "Another model answers",
    "gpt-4o answers 20 requests for gpt-4o-mini. The answers name gpt-4o, and the gateway bills gpt-4o.",
    "tokens:200+served:gpt-4o+bill-served",
    times(20, chat({ model: "gpt-4o-mini" })),
  ),
  "kill-during-holds": kill(
    "kill -9 while requests arrive",
    "60 requests arrive at once. The process is killed as soon as at least 20 of them have reached the gateway.",
    "tokens:50+latency:500",
    false,
    ({ gateway }) => gateway.until({ requests: 20 }, momentLimitMs),
  ),
  "kill-during-answers": kill(
    "kill -9 during answers",
    "The process is killed as soon as the gateway has written at least half of the 3,000 tokens of 60 streams.",
    "tokens:50+slow:20",
    true,
    ({ gateway }) => gateway.until({ deltas: 60 * 25 }, momentLimitMs),
  ),
  "kill-after-answers": kill(
    "kill -9 right after answers",
    "The process is killed as soon as at least 40 of 60 clients have their answers.",
    "tokens:50+latency:300",
    false,
    ({ answered }) => answered(40, momentLimitMs),
  ),
  "restart-in-window": {
    title: "Restart within a window",
    about:
      "The peer answers and records 20 requests. Then the process is killed and started again, and 200 more requests arrive. The budget pays for 37.",
    budget: for37,
    requestUsd: "0.00055",
    async run({ gateway, peer, send, checkpoint }) {
      await gateway.serve("tokens:50+latency:100");
      for (let round = 0; round < 4; round++) await send(times(5, chat({ maxTokens: 50 })));
      await checkpoint();
      await peer.restart();
      await send(times(200, chat({ maxTokens: 50 })));
    },
  },
  "task-polls": onLedger(
    "Polls of an ended task",
    "A task of 0.20 USD is created and polled 20 times after its end. The gateway bills it once.",
    async ({ gateway, send }) => {
      await gateway.serve("task-wait:1+task-run:1+consume:2000000");
      const [created] = await send(
        [{ body: { model: "kling", task_type: "video_generation", input: { prompt, duration: 5 } } }],
        "/api/v1/task",
      );
      const id = /"task_id":\s*"([^"]+)"/.exec(created?.body ?? "")?.[1] ?? "none";
      for (let poll = 0; poll < 20; poll++) await send([{ method: "GET" }], `/api/v1/task/${id}`);
    },
  ),
};
