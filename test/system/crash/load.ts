import { setTimeout as pause } from "node:timers/promises";
import { parseUsd, type PicoUsd } from "../../../src/core/money.ts";
import { pick, type Random } from "../../../src/sandbox/random.ts";

/** One request as a client of the load saw it. */
export interface Sent {
  /** Its tag, and its `user` at the gateway. */
  readonly number: string;
  readonly kind: Kind;
  /** Id in Farebox's header; null if no answer began. */
  id: string | null;
  status: number | null;
  /** Code of Farebox's own error, in the header of a refusal or in the event that ends a stream. */
  code: string | null;
  /** Monotonic times, in milliseconds. */
  readonly startedAt: number;
  endedAt: number;
  /** `left`: the client ended it. `unanswered`: no byte arrived. */
  end: "open" | "whole" | "refused" | "cut" | "left" | "unanswered";
  /** Cost in the header of a plain answer. */
  cost: PicoUsd | null;
  /** Usage in the answer. */
  usage: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
  /** Pieces of text that the client read from a stream, each at least one token. */
  received: number;
  /** Task that the answer to a creation names. */
  task: string | null;
}

export type Kind = "plain" | "large" | "stream" | "growing" | "leaving" | "trouble" | "held" | "task";

export interface Load {
  readonly sent: readonly Sent[];
  /** Stops the clients; resolves when each has seen the end of its last request. */
  stop(): Promise<void>;
}

export interface LoadOptions {
  readonly url: string;
  /** Each client begins with one of them and changes to the next one when it is refused. */
  readonly keys: readonly string[];
  /** Creates the tasks; null for none. */
  readonly taskKey: string | null;
  /** Distinguishes the requests of this load. */
  readonly name: string;
  readonly clients: number;
  readonly random: Random;
  /** Chooses from these kinds of requests. Default: all but `large` and `held`, most of them plain answers and streams. */
  readonly kinds?: readonly [Kind, ...Kind[]];
  /** Time over which the clients begin, in milliseconds. Default: 0. */
  readonly overMs?: number;
  /** Number of tokens in a `held` stream, two a second. */
  readonly heldTokens?: number;
}

/** Faults of the gateway for `trouble` requests. */
const troubles = ["status:500", "status:524", "reset-before", "cut:5+slow:3", "no-done", "stream-error:4"] as const;
/** Kinds in proportion to how often they are listed. */
const requestKinds = [
  "plain",
  "plain",
  "plain",
  "stream",
  "stream",
  "stream",
  "growing",
  "leaving",
  "trouble",
] as const;
const kinds = [...requestKinds, "task"] as const;

/** Starts clients that send mixed requests one after the other, until they are stopped or the proxy no longer listens. */
export function startLoad(options: LoadOptions): Load {
  const sent: Sent[] = [];
  const stopped = new AbortController();
  const { taskKey } = options;
  const asked = options.kinds ?? (taskKey === null ? requestKinds : kinds);
  const client = async (turn: number): Promise<void> => {
    if (options.overMs !== undefined) await pause((turn / options.clients) * options.overMs);
    while (!stopped.signal.aborted) {
      const key = options.keys[turn % options.keys.length] ?? "";
      const one: Sent = {
        number: `${options.name}-${sent.length}`,
        kind: pick(options.random, asked),
        id: null,
        status: null,
        code: null,
        startedAt: performance.now(),
        endedAt: Infinity,
        end: "open",
        cost: null,
        usage: null,
        received: 0,
        task: null,
      };
      sent.push(one);
      await send(one, options.url, one.kind === "task" ? (taskKey ?? "") : key, bodyOf(one, options));
      one.endedAt = performance.now();
      if (one.status === 503) await pause(retryMs);
      if (one.end === "unanswered") return;
      if (one.end === "refused" && one.kind !== "task") turn++;
    }
  };
  const clients = Array.from({ length: options.clients }, (_, index) => client(index));
  return {
    sent,
    async stop() {
      stopped.abort();
      await Promise.all(clients);
    },
  };
}

function bodyOf({ kind, number }: Sent, { random, heldTokens = 20 }: LoadOptions): object {
  const some = (least: number, most: number) => least + Math.floor(random() * (most - least + 1));
  if (kind === "task") {
    const input = { prompt: `#sandbox task-wait:${some(0, 20)}+task-run:${some(0, 80)}`, number };
    return { model: "kling", task_type: "video_generation", input };
  }
  const stream = { stream: true, stream_options: { include_usage: true } };
  // Slow enough for a busy machine, which may pause for the time of several tokens.
  const paced = `tokens:${some(10, 80)}+slow:${some(4, 8)}`;
  const asked = {
    plain: () => ({ scenario: `latency:${some(0, 60)}+tokens:${some(1, 80)}`, max_tokens: 100 }),
    large: () => ({ prompt: largePrompt, scenario: `tokens:${some(1, 20)}`, max_tokens: 100 }),
    stream: () => ({ scenario: paced, max_tokens: 100, ...stream }),
    growing: () => ({ scenario: paced, ...stream }),
    // Long enough that the gateway notices before the end that the client left, even on a busy machine.
    leaving: () => ({ scenario: `tokens:200+slow:${some(5, 10)}`, max_tokens: 250, ...stream }),
    held: () => ({ scenario: `tokens:${heldTokens}+slow:500`, max_tokens: 100, ...stream }),
    trouble: () => ({ scenario: pick(random, troubles), max_tokens: 100, ...stream }),
  }[kind]();
  const { scenario, prompt = "", ...rest }: { scenario: string; prompt?: string; max_tokens?: number } = asked;
  const content = `${prompt}#sandbox ${scenario}`;
  return { model: "gpt-4o", user: number, messages: [{ role: "user", content }], ...rest };
}

const largePrompt = "a word and another ".repeat(1_000);
/** Pause of a client after a 503, in milliseconds. */
const retryMs = 250;

/** Sends a request and records how it ended. Never rejects. */
async function send(one: Sent, url: string, key: string, body: object): Promise<void> {
  const leaving = new AbortController();
  try {
    const response = await fetch(`${url}${one.kind === "task" ? "/api/v1/task" : "/v1/chat/completions"}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: `Bearer ${key}`,
        "x-farebox-tag": `number=${one.number}`,
      },
      body: JSON.stringify(body),
      signal: leaving.signal,
    });
    one.status = response.status;
    one.code = response.headers.get("x-farebox-error");
    one.id = response.headers.get("x-farebox-request-id");
    one.cost = parseUsd(response.headers.get("x-farebox-cost-usd") ?? "") ?? null;
    const text = await readBody(response, one, one.kind === "leaving" ? () => leaving.abort() : null);
    one.end = endOf(one, text);
  } catch {
    if (leaving.signal.aborted) one.end = "left";
    else one.end = one.status === null ? "unanswered" : "cut";
  }
}

/** Parts of a stream that a leaving client reads. */
const partsBeforeLeaving = 5;

/** Reads the body and records what was received, even if the stream breaks later. */
async function readBody(response: Response, one: Sent, leave: (() => void) | null): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let read = 0;
  let parts = 0;
  for await (const part of response.body ?? []) {
    text += decoder.decode(part, { stream: true });
    const end = text.lastIndexOf("\n") + 1;
    one.received += text.slice(read, end).match(/"delta":\{"content":"(?!")/g)?.length ?? 0;
    read = end;
    parts++;
    if (leave !== null && parts >= partsBeforeLeaving) leave();
  }
  return text;
}

/** Returns how the answer ended, and records the usage of a whole one. */
function endOf(one: Sent, text: string): Sent["end"] {
  if (one.status !== 200) return "refused";
  if (one.kind === "task") {
    one.task = JSON.parse(text).data.task_id;
    return "whole";
  }
  if (one.kind === "plain" || one.kind === "large") {
    one.usage = JSON.parse(text).usage;
    return "whole";
  }
  one.code = /data: \{"error".*"code":"(\w+)"/.exec(text)?.[1] ?? null;
  if (!/data: \[DONE\]\s*$/.test(text) || one.code !== null || text.includes('data: {"error"')) return "cut";
  const usage = text.split("\n\n").findLast((event) => /"usage":\s*\{/.test(event));
  one.usage = usage === undefined ? null : JSON.parse(usage.slice("data: ".length)).usage;
  return "whole";
}
