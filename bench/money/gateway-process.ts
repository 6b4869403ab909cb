import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { ModelPrice } from "./peer.ts";

export interface GatewayParams {
  readonly key: string;
  readonly prices: Readonly<Record<string, ModelPrice>>;
}

/** Requests and bill that the gateway has recorded. */
export interface GatewayState {
  /** Requests that arrived, except GET requests. */
  readonly requests: number;
  /** Requests whose answers are not complete. */
  readonly open: number;
  /** Events with text that the gateway has written to streams. */
  readonly deltas: number;
  /** Billed calls. */
  readonly calls: number;
  /** Sum of the bill in pico-USD, in decimal digits. */
  readonly billed: string;
}

/** Condition on the gateway's state: at least this many requests or deltas, or no incomplete answer. */
export type Moment = { readonly requests: number } | { readonly deltas: number } | { readonly open: 0 };

type GatewayRequest =
  | { readonly scenario: string }
  | { readonly query: "state" }
  | { readonly moment: Moment; readonly limitMs: number };
export type ToGateway = GatewayRequest & { readonly id: number };
export type FromGateway =
  | { readonly url: string }
  /** `isReached`: false if the moment did not come within the time limit. */
  | { readonly id: number; readonly state: GatewayState; readonly isReached: boolean };
type Answer = Extract<FromGateway, { readonly id: number }>;

const file = fileURLToPath(new URL("./gateway.ts", import.meta.url));

/** The fake gateway in a separate process. */
export class Gateway implements AsyncDisposable {
  readonly url: string;
  readonly key: string;
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<Answer>>();
  #count = 0;

  private constructor(child: ChildProcess, url: string, key: string) {
    this.#process = child;
    this.url = url;
    this.key = key;
    child.on("message", (message: FromGateway) => {
      if ("id" in message) this.#waiting.get(message.id)?.resolve(message);
    });
    child.once("exit", () => {
      for (const each of this.#waiting.values()) each.reject(ended());
    });
  }

  static async start(prices: GatewayParams["prices"]): Promise<Gateway> {
    const key = "sk-gateway-key-of-the-benchmark";
    const child = fork(file, [JSON.stringify({ key, prices } satisfies GatewayParams)], { execArgv: [] });
    return new Gateway(child, await addressOf(child), key);
  }

  /** Sets the sandbox's scenario for all later requests. */
  async serve(scenario: string): Promise<void> {
    await this.#request({ scenario });
  }

  async state(): Promise<GatewayState> {
    return (await this.#request({ query: "state" })).state;
  }

  /**
   * Waits for a moment, and returns the gateway's state at that moment. The gateway checks the condition after each change.
   * Throws an error if the moment does not come within the time limit.
   */
  async until(moment: Moment, limitMs: number): Promise<GatewayState> {
    const { state, isReached } = await this.#request({ moment, limitMs });
    if (isReached) return state;
    throw new Error(`${missed(moment, state)} within ${limitMs / 1000} s`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#process;
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }

  async #request(request: GatewayRequest): Promise<Answer> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) throw ended();
    const id = this.#count++;
    const answer = Promise.withResolvers<Answer>();
    this.#waiting.set(id, answer);
    this.#process.send({ ...request, id } satisfies ToGateway);
    try {
      return await answer.promise;
    } finally {
      this.#waiting.delete(id);
    }
  }
}

function ended(): Error {
  return new Error("the gateway's process ended");
}

function missed(moment: Moment, { requests, deltas, open }: GatewayState): string {
  if ("requests" in moment) return `only ${requests} of ${moment.requests} requests reached the gateway`;
  if ("deltas" in moment) return `the gateway wrote only ${deltas} of ${moment.deltas} events with text`;
  return `${open} requests at the gateway did not end`;
}

async function addressOf(child: ChildProcess): Promise<string> {
  const exited = once(child, "exit").then(() => Promise.reject(ended()));
  const [first] = (await Promise.race([once(child, "message"), exited])) as [FromGateway];
  exited.catch(() => undefined);
  if (!("url" in first)) throw new Error("the gateway sent its state before its address");
  return first.url;
}
