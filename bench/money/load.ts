import { Agent, request, type IncomingMessage } from "node:http";
import OpenAI, { APIError } from "openai";

export interface Ask {
  /** Address with its path. */
  readonly url: string;
  readonly method?: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: object;
  /** Moment at which the client breaks the connection: when a promise resolves, or after this many chunks with text. */
  readonly leave?: { readonly once: Promise<unknown> } | { readonly afterDeltas: number };
  /** True to send the request with OpenAI's SDK, with the SDK's default retries. */
  readonly isRetried?: boolean;
}

/** Result of a request as its client sees it. */
export interface Outcome {
  /** Null if no answer arrived. */
  readonly status: number | null;
  /** Code or type of the error in the body or in the stream; null if there is none. */
  readonly code: string | null;
  /**
   * `whole`: complete; `error`: ended by an error event or a status above 399; `broken`: the connection broke; `silent`: a stream
   * that ended cleanly although it was not complete; `left`: the client left.
   */
  readonly ended: "whole" | "error" | "broken" | "silent" | "left";
  readonly body: string;
}

/** Longest time for one request, in milliseconds. */
const limitMs = 60_000;

/** Sends requests in parallel, each on its own connection. */
export class Clients implements Disposable {
  readonly #agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });

  send({ url, method = "POST", headers, body, leave, isRetried = false }: Ask): Promise<Outcome> {
    if (isRetried) return sendWithSdk(url, headers, body);
    return new Promise((resolve) => {
      let hasLeft = false;
      const signal = AbortSignal.timeout(limitMs);
      const sent = request(url, {
        method,
        agent: this.#agent,
        headers: { "content-type": "application/json", ...headers },
        signal,
      });
      const disconnect = () => {
        hasLeft = true;
        sent.destroy();
      };
      // If the moment does not come, the scenario fails and its clients stay connected.
      if (leave !== undefined && "once" in leave) leave.once.then(disconnect, () => undefined);
      const failed = (status: number | null, text: string) =>
        resolve({ status, code: codeIn(text), ended: hasLeft ? "left" : "broken", body: text });
      sent.once("error", () => failed(null, ""));
      sent.once("response", (answer) => {
        const status = answer.statusCode ?? 0;
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => {
          text += part;
          if (leave !== undefined && "afterDeltas" in leave && deltasIn(text) >= leave.afterDeltas) disconnect();
        });
        answer.once("end", () => resolve({ status, code: codeIn(text), ended: endOf(answer, text), body: text }));
        answer.once("error", () => failed(status, text));
        answer.once("close", () => failed(status, text));
      });
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

const sdk = new OpenAI({ apiKey: "unused", timeout: limitMs });

/** Sends a plain request. The SDK retries at most twice after 408, 409, 429, 5xx or no answer, and obeys `retry-after`. */
async function sendWithSdk(url: string, headers: Ask["headers"], body?: object): Promise<Outcome> {
  try {
    const answer = await sdk.post(url, { headers, body }).asResponse();
    const text = await answer.text();
    return { status: answer.status, code: codeIn(text), ended: "whole", body: text };
  } catch (error) {
    if (!(error instanceof APIError)) throw error;
    const text = JSON.stringify({ error: error.error });
    const status = error.status ?? null;
    return { status, code: codeIn(text), ended: status === null ? "broken" : "error", body: text };
  }
}

function endOf({ statusCode = 0, headers }: IncomingMessage, text: string): Outcome["ended"] {
  if (statusCode > 399) return "error";
  if (headers["content-type"]?.startsWith("text/event-stream") !== true) return "whole";
  if (/"finish_reason":\s*"/.test(text)) return "whole";
  return /^(data: *\{"error"|event: *error)/m.test(text) ? "error" : "silent";
}

function deltasIn(text: string): number {
  return text.split(/"(?:content|input)":\s*"(?!")/).length - 1;
}

/** Finds the code of an error in a JSON body or in an event of a stream. If the code is only a status, returns the type. */
export function codeIn(text: string): string | null {
  const json = /^data: *(\{.*"error".*\})$/m.exec(text)?.[1] ?? text;
  try {
    const parsed = JSON.parse(json) as Readonly<Record<string, unknown>>;
    const error = parsed["error"] ?? parsed;
    if (typeof error !== "object" || error === null) return null;
    const { code, type } = error as { readonly code?: unknown; readonly type?: unknown };
    const word = [code, type].find((each) => typeof each === "string" && each !== "" && !/^\d+$/.test(each));
    return typeof word === "string" && parsed["choices"] === undefined ? word : null;
  } catch {
    return null;
  }
}

/** Formats the result of a request: "200", "402 insufficient_quota", "200, then budget_exceeded". */
export function labelOf({ status, code, ended }: Outcome): string {
  if (ended === "left") return "(the client left)";
  if (status === null) return "no answer";
  if (status > 399) return code === null ? String(status) : `${status} ${code}`;
  if (ended === "error") return `${status}, then ${code ?? "an error"}`;
  if (ended === "broken") return `${status}, then the connection broke`;
  return ended === "silent" ? `${status}, incomplete without an error` : String(status);
}
