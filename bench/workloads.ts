/** Kind of a workload's measurement. */
type Measure =
  /** CPU of the proxy for each request, with many clients at once. */
  | "cpu"
  /** Time of one client from sending to the last byte of the answer. */
  | "latency"
  /** Time of one client from sending to the first byte of the body. */
  | "firstByte"
  /** CPU over time with many open streams, and the delay of each chunk from the gateway to the client. */
  | "paced"
  /** Memory of the proxy's processes with many open streams. */
  | "held";

export interface Workload {
  readonly name: string;
  readonly about: string;
  readonly measure: Measure;
  readonly body: object;
  /** Number of deltas of a streamed answer; null if it is not streamed. */
  readonly deltas: number | null;
  /** Requests to one target in one round, which take about a second; null for one request per stream. */
  readonly requests: number | null;
}

/** Number of deltas in a burst stream. */
export const burstDeltas = 200;
/** Number of tokens in a plain answer of 0.4 kB. */
export const plainTokens = 50;
/** Time between two chunks of a paced stream, in milliseconds. */
export const pacedChunkMs = 5;
/** Time between two chunks of a stream that is held open, in milliseconds. */
export const heldChunkMs = 1000;
/** Number of chunks of such a stream. It lasts longer than the slowest proxy needs to open all streams. */
export const heldChunks = 60;

/** Output maximum that requests state. No answer of a benchmark has as many tokens, because gateways obey a maximum. */
const outputMax = 4000;

const hello = [
  { role: "system", content: "You are a helpful assistant." },
  { role: "user", content: "Say hello to the people who measure you." },
];

function body(messages: readonly object[], stream: boolean): object {
  return { ...(stream ? openStream(messages) : request(messages)), max_tokens: outputMax };
}

/** Returns a request for a stream that states no maximum. A hard budget then watches its output. */
function openStream(messages: readonly object[]): object {
  return { ...request(messages), stream: true, stream_options: { include_usage: true } };
}

function request(messages: readonly object[]): object {
  return { model: "gpt-4o", temperature: 0.7, messages };
}

/** Returns prose with line breaks and quotation marks, because JSON escapes both in real prompts too. */
function longPrompt(bytes: number): string {
  const line = 'The fare is "what the meter says", and the meter says what the gateway wrote down for the ride.\n';
  return line.repeat(Math.ceil(bytes / line.length)).slice(0, bytes);
}

const all = [
  {
    name: "plain",
    about: "small JSON both ways",
    measure: "cpu",
    body: body(hello, false),
    deltas: null,
    requests: 2000,
  },
  {
    name: "stream",
    about: "200 chunks in one burst",
    measure: "cpu",
    body: body(hello, true),
    deltas: burstDeltas,
    requests: 800,
  },
  {
    name: "open-stream",
    about: "the same without a stated maximum",
    measure: "cpu",
    body: openStream(hello),
    deltas: burstDeltas,
    requests: 800,
  },
  {
    name: "prompt",
    about: "100 kB of prompt, small answer",
    measure: "cpu",
    body: body([{ role: "user", content: longPrompt(100_000) }], false),
    deltas: null,
    requests: 800,
  },
  {
    name: "latency",
    about: "plain, one client",
    measure: "latency",
    body: body(hello, false),
    deltas: null,
    requests: 600,
  },
  {
    name: "first-byte",
    about: "burst stream, one client",
    measure: "firstByte",
    body: body(hello, true),
    deltas: burstDeltas,
    requests: 400,
  },
  {
    name: "paced",
    about: "streams at 5 ms a chunk",
    measure: "paced",
    body: body(hello, true),
    deltas: null,
    requests: null,
  },
  {
    name: "open-paced",
    about: "streams at 5 ms a chunk without a stated maximum",
    measure: "paced",
    body: openStream(hello),
    deltas: null,
    requests: null,
  },
  {
    name: "held",
    about: "streams held open, one chunk a second",
    measure: "held",
    body: body(hello, true),
    deltas: null,
    requests: null,
  },
] as const satisfies readonly Workload[];

export type WorkloadName = (typeof all)[number]["name"];

export const workloads: readonly Workload[] = all;
export const workloadNames: readonly WorkloadName[] = all.map(({ name }) => name);
