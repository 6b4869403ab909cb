import OpenAI, { APIError } from "openai";

/** One request of the demo as its client saw it. */
export interface DemoLine {
  readonly what: string;
  readonly result: string;
  /** Farebox's id of it; null when it was refused before it had a charge. */
  readonly requestId: string | null;
}

interface Wish {
  readonly what: string;
  readonly model: string;
  readonly prompt: string;
  readonly stream?: "with usage" | "without usage";
}

const wishes: readonly Wish[] = [
  { what: "gpt-4o, plain", model: "gpt-4o", prompt: "Name three colours of the evening sky." },
  {
    what: "gpt-4o-mini, stream with usage",
    model: "gpt-4o-mini",
    prompt: "Tell a very short story.",
    stream: "with usage",
  },
  {
    what: "gpt-4.1, stream without usage",
    model: "gpt-4.1",
    prompt: "Count to ten in words.",
    stream: "without usage",
  },
  { what: "claude-sonnet-4-6, plain", model: "claude-sonnet-4-6", prompt: "What is a ledger?" },
  { what: "gemini-2.5-flash, plain", model: "gemini-2.5-flash", prompt: "What is a farebox?" },
];

/** Sends the demo's requests with the official SDK: plain, streamed, and one that its budget cannot pay for. */
export async function runDemoRequests(
  baseURL: string,
  keys: { readonly demo: string; readonly intern: string },
): Promise<DemoLine[]> {
  const client = clientWith(baseURL, keys.demo);
  const lines: DemoLine[] = [];
  for (const wish of wishes)
    lines.push(await (wish.stream === undefined ? plain(client, wish) : streamed(client, wish)));
  lines.push(await refused(clientWith(baseURL, keys.intern)));
  return lines;
}

/** The SDK without what it would take from the environment: its headers (OPENAI_CUSTOM_HEADERS), organization and log level. */
function clientWith(baseURL: string, apiKey: string): OpenAI {
  const headers = { "content-type": "application/json", authorization: `Bearer ${apiKey}` };
  return new OpenAI({
    baseURL,
    apiKey,
    organization: null,
    project: null,
    logLevel: "off",
    fetch: (url, init) => fetch(url, { ...init, headers }),
  });
}

async function plain(client: OpenAI, { what, model, prompt }: Wish): Promise<DemoLine> {
  const { data, response } = await client.chat.completions
    .create({ model, messages: [{ role: "user", content: prompt }], max_tokens: 200 })
    .withResponse();
  const cost = response.headers.get("x-farebox-cost-usd");
  const words = data.choices[0]?.message.content?.split(/\s+/).length ?? 0;
  return {
    what,
    result: `${words} words, header says ${cost} USD`,
    requestId: response.headers.get("x-farebox-request-id"),
  };
}

async function streamed(client: OpenAI, { what, model, prompt, stream }: Wish): Promise<DemoLine> {
  const { data, response } = await client.chat.completions
    .create({
      model,
      messages: [{ role: "user", content: prompt }],
      max_tokens: 200,
      stream: true,
      ...(stream === "with usage" && { stream_options: { include_usage: true } }),
    })
    .withResponse();
  let chunks = 0;
  for await (const _ of data) chunks++;
  return { what, result: `${chunks} chunks`, requestId: response.headers.get("x-farebox-request-id") };
}

/** A budget too small for the request: one 402, no retries, nothing sent to the gateway. */
async function refused(client: OpenAI): Promise<DemoLine> {
  const what = "gpt-4o, with the intern's key";
  try {
    await client.chat.completions.create({
      model: "gpt-4o",
      messages: [{ role: "user", content: "Write a long novel." }],
    });
    return { what, result: "was not refused", requestId: null };
  } catch (error) {
    if (!(error instanceof APIError)) throw error;
    return { what, result: `${error.status} ${error.code}`, requestId: null };
  }
}
