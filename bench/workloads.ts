/** Subject of a workload's figures. */
export type Measure =
  /** CPU of the proxy for each request, with many clients at once. */
  | "cpu"
  /** One client: from sending to the answer's last byte. */
  | "latency"
  /** One client: from sending to the first byte of the answer's body. */
  | "firstByte"
  /** Streams held open at once: CPU over time, and each chunk's delay from the gateway to the client. */
  | "paced"
  /** Streams held open at once: the memory of the proxy's processes. */
  | "held";

export interface Workload {
  readonly name: string;
  readonly about: string;
  readonly measure: Measure;
  readonly body: object;
  /** Deltas of the answer where it is a stream; null where it is plain. */
  readonly deltas: number | null;
  /** To one target in one round: about a second's. Null where the number of streams says it. */
  readonly requests: number | null;
}

/** Deltas of a burst stream. */
export const burstDeltas = 200;
/** Tokens of a plain answer: 0.4 kB. */
export const plainTokens = 50;
/** Between two chunks of a paced stream. */
export const pacedChunkMs = 5;
/** Between two chunks of a stream that is held open, and of how many it is made: longer than a slow proxy takes to open them all. */
export const heldChunkMs = 1000;
export const heldChunks = 60;

const hello = [
  { role: "system", content: "You are a helpful assistant." },
  { role: "user", content: "Say hello to the people who measure you." },
];

function body(messages: readonly object[], stream: boolean): object {
  const asked = { model: "gpt-4o", temperature: 0.7, max_tokens: 1000, messages };
  return stream ? { ...asked, stream: true, stream_options: { include_usage: true } } : asked;
}

/** Lines of prose with quotes in them, as documents in prompts have: both are escaped in JSON. */
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
