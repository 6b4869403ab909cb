/** Help of one scenario. */
interface ScenarioInfo {
  /** Name of the value after the colon in the help; empty if the scenario has no value. */
  readonly value: string;
  /** Value that applies if none is written. */
  readonly fallback: string;
  readonly description: string;
}

const info = (value: string, fallback: string, description: string): ScenarioInfo => ({ value, fallback, description });
const plain = (description: string): ScenarioInfo => info("", "", description);

/**
 * Scenarios of one request. They can be combined: `cut:5+slow:20`. A scenario that replaces the answer is billed only
 * with `billed`.
 */
export const scenarios = {
  // Broken answers.
  cut: info(
    "CHUNKS",
    "3",
    "breaks the connection after this many deltas, or in the middle of an answer that is not streamed",
  ),
  "reset-before": plain("resets the connection before any header"),
  "reset-after-headers": plain("resets the connection right after the headers"),
  "stream-error": info("CHUNKS", "3", "sends an error event after this many deltas and ends the stream"),
  "no-done": plain("ends a stream cleanly without [DONE], or without message_stop"),
  failed: plain("a stream of /v1/responses ends with response.failed and no usage"),
  "no-finish": plain("ends a stream cleanly without a finish_reason, usage or [DONE]"),
  "wrong-length": info(
    "long|short",
    "long",
    "states a content-length above or below the length of the body, and closes the connection",
  ),
  "bad-json": plain("answers 200 with half of a JSON text and ends cleanly"),
  // Delays.
  latency: info("MS", "200", "waits before it answers"),
  slow: info("MS", "50", "waits before each delta"),
  silent: plain("never answers"),
  "silent-stream": plain("sends the headers and nothing more"),
  "headers-first": info("MS", "200", "sends the headers, waits, and sends the rest"),
  endless: info("MS", "5", "a stream without end, with this delay before each delta"),
  // Errors and redirects.
  status: info("CODE", "500", "answers an error with this status; 429 with retry-after, 524 as plain text"),
  "early-response": info("CODE", "413", "answers before it reads the body (only from the header x-sandbox-scenario)"),
  "redirect-307": plain("redirects to another path of the same origin, which serves it"),
  "redirect-foreign": info(
    "URL",
    "",
    "redirects to another origin; without a URL, to this sandbox under another host name",
  ),
  "redirect-loop": plain("redirects without end"),
  html: info("CODE", "502", "answers an HTML page with this status"),
  empty: plain("answers 200 without a body"),
  // Form of the answer.
  gzip: plain("compresses the answer with gzip, even if the client does not accept gzip"),
  br: plain("compresses the answer with Brotli, even if the client does not accept Brotli"),
  zstd: plain("compresses the answer with Zstandard, even if the client does not accept Zstandard"),
  crlf: plain("ends the lines of a stream with CR LF"),
  comments: plain("writes comments and blank lines between events"),
  "multiline-data": plain("splits each event into several data lines"),
  split: info("BYTES", "", "writes this many bytes at a time; without a number, pieces of random size"),
  group: info("TOKENS", "1", "writes this many tokens in one delta"),
  "set-cookie": plain("sets a cookie"),
  close: plain("closes the connection after the answer"),
  // Content of the answer.
  tokens: info("N", "100", "an answer of N tokens"),
  prompt: info("N", "1000", "reports and bills a prompt of N tokens"),
  cached: info("N", "100", "N prompt tokens are reported as cached"),
  reasoning: info("N", "200", "N hidden tokens are added to the completion"),
  written: info("N", "100", "N prompt tokens of /v1/messages are reported as written to the cache for five minutes"),
  "written-1h": info("N", "100", "the same for one hour"),
  "tool-calls": info(
    "JSON",
    "",
    'the answer of /v1/messages calls these tools: [{"name":"weather","input":{}}]; without a list, the first tool of the request',
  ),
  searches: info("N", "1", "an answer of /v1/messages after N web searches, if the request allows so many"),
  refusal: info("N", "0", "/v1/messages declines after N tokens of output; without output, nothing is billed"),
  "reasoning-outside": info("N", "200", "N hidden tokens are billed, and only total_tokens includes them"),
  "over-limit": info("N", "100", "the answer exceeds the request's maximum by N tokens"),
  big: info("BYTES", "1200000", "an answer of at least this many bytes"),
  "echo-key": plain("the answer repeats the credential of the request"),
  served: info("MODEL", "gpt-4o-2024-11-20", "the answer names this model instead of the requested one"),
  // Usage and billing.
  "bill-served": plain("bills the model of `served` instead of the requested one"),
  "no-usage": plain("no usage, even if it is requested"),
  "empty-usage": plain("usage: {}"),
  "usage-last": plain("a stream's usage is in the chunk with the finish_reason"),
  "usage-always": plain("a stream has a usage chunk even if it is not requested"),
  usage: info("JSON", "{}", "reports exactly this usage"),
  billed: plain("bills the whole answer although a fault replaces it"),
  free: plain("bills nothing"),
  overbill: info("N", "10", "bills N more completion tokens than are reported"),
  "top-up": info("USD", "10", "before the answer, this amount is paid into the account"),
  expire: info("USD", "1", "before the answer, credits of this value expire"),
  freeze: info("USD", "1", "before the answer, credits of this value are frozen"),
  unfreeze: info("USD", "1", "before the answer, frozen credits of this value become available"),
  others: info("USD", "1", "before the answer, other clients spend this amount from the account"),
  // Tasks. The model in the creation states the scenario.
  "task-wait": info("MS", "500", "time for which a task is pending"),
  "task-run": info("MS", "3000", "time for which a task runs before it ends"),
  "task-endless": plain("a task that never ends"),
  "task-fails": info(
    "TEXT",
    "upstream overload, try again later",
    "a task fails with this message; it is billed only with consume",
  ),
  consume: info("N", "1000000", "the consumption of a task, in ten-millionths of a US dollar"),
  "usage-type": info("TYPE", "quota", "the type of a task's usage, instead of llm"),
  unified: plain("a task's record in the unified form: timestamp and data"),
  conversation: plain("a task's record in the form of the conversation family: task_info and task_result"),
  "task-refused": info(
    "TEXT",
    "this model is not supported in PPU mode",
    "a creation is refused inside a 200 answer, with code 10001 and this message",
  ),
  "webhook-begins": plain("a task's webhook is also called when the task begins"),
  "webhook-twice": plain("a task's webhook is called twice at the end"),
  "webhook-never": plain("a task's webhook is never called"),
  ceilings: plain("a creation fails with 429 if its family or the account already runs the largest number of tasks"),
  // Benchmarks.
  bench: info(
    "N",
    "200",
    "a prepared answer of N tokens; a stream has N deltas, in one burst or with the delay of slow:MS",
  ),
} as const satisfies Record<string, ScenarioInfo>;

export type ScenarioName = keyof typeof scenarios;

/** Scenarios of one request, each with its written or default value. */
export type Scenario = Readonly<Partial<Record<ScenarioName, string>>>;

/** Scenarios for the help, in the order of the table: `cut:CHUNKS` and a description. */
export const scenarioList: readonly { readonly usage: string; readonly description: string }[] = Object.entries(
  scenarios,
).map(([name, { value, description }]) => ({ usage: value === "" ? name : `${name}:${value}`, description }));

const parsed = new Map<string, Scenario | null>();
const parsedMax = 1000;

/** Parses a text such as `cut:5+slow:20`. Returns null if it names an unknown scenario. */
export function parseScenario(text: string): Scenario | null {
  const known = parsed.get(text);
  if (known !== undefined) return known;
  const result = readScenario(text);
  if (parsed.size >= parsedMax) parsed.clear();
  parsed.set(text, result);
  return result;
}

function readScenario(text: string): Scenario | null {
  const result: Partial<Record<ScenarioName, string>> = {};
  for (const part of text.split("+")) {
    const [, name = "", value] = /^\s*([^:\s]*)(?::(.*\S))?\s*$/s.exec(part) ?? [];
    if (name === "") continue;
    if (!isScenarioName(name)) return null;
    result[name] = value ?? scenarios[name].fallback;
  }
  return result;
}

function isScenarioName(name: string): name is ScenarioName {
  return Object.hasOwn(scenarios, name);
}

/** Returns a scenario's value as a whole number; undefined if the request does not have the scenario. */
export function numberOf(scenario: Scenario, name: ScenarioName): number | undefined {
  const text = scenario[name];
  if (text === undefined) return undefined;
  return Number(/^\d{1,9}$/.test(text) ? text : scenarios[name].fallback);
}
