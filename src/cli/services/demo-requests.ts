import { SseReader } from "../../wire/sse.ts";

/** Request of the demo, and what its client received. */
interface DemoLine {
  readonly label: string;
  readonly result: string;
  /** Farebox's id of the request; null if the request was refused before it got a charge. */
  readonly requestId: string | null;
}

interface DemoRequest {
  readonly label: string;
  readonly model: string;
  readonly prompt: string;
  readonly stream?: "with usage" | "without usage";
}

const demoRequests: readonly DemoRequest[] = [
  { label: "gpt-4o, plain", model: "gpt-4o", prompt: "Name three colors of the evening sky." },
  {
    label: "gpt-4o-mini, stream with usage",
    model: "gpt-4o-mini",
    prompt: "Tell a very short story.",
    stream: "with usage",
  },
  {
    label: "gpt-4.1, stream without usage",
    model: "gpt-4.1",
    prompt: "Count to ten in words.",
    stream: "without usage",
  },
  { label: "claude-sonnet-4-6, plain", model: "claude-sonnet-4-6", prompt: "What is a ledger?" },
  { label: "gemini-2.5-flash, plain", model: "gemini-2.5-flash", prompt: "What is a farebox?" },
];

/**
 * Sends the demo's requests: plain and streamed requests, and a request that exceeds the budget of the intern's key.
 * Returns a line for each.
 */
export async function runDemoRequests(
  baseURL: string,
  keys: { readonly demo: string; readonly intern: string },
): Promise<DemoLine[]> {
  const ask = (key: string, body: object) =>
    fetch(`${baseURL}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
  const lines: DemoLine[] = [];
  for (const { label, model, prompt, stream } of demoRequests) {
    const body = { model, messages: [{ role: "user", content: prompt }], max_tokens: 200 };
    const response = await ask(keys.demo, {
      ...body,
      ...(stream !== undefined && { stream: true }),
      ...(stream === "with usage" && { stream_options: { include_usage: true } }),
    });
    const result = await (stream === undefined ? plainResult(response) : streamedResult(response));
    lines.push({ label, result, requestId: response.headers.get("x-farebox-request-id") });
  }
  const response = await ask(keys.intern, {
    model: "gpt-4o",
    messages: [{ role: "user", content: "Write a long novel." }],
  });
  return [...lines, { label: "gpt-4o, with the intern's key", result: await refusalResult(response), requestId: null }];
}

async function plainResult(response: Response): Promise<string> {
  if (!response.ok) return refusalResult(response);
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
  const words = choices[0]?.message.content.split(/\s+/).length ?? 0;
  return `${words} words, cost header ${response.headers.get("x-farebox-cost-usd")} USD`;
}

async function streamedResult(response: Response): Promise<string> {
  if (!response.ok) return refusalResult(response);
  let chunks = 0;
  const reader = new SseReader((data) => (chunks += data === "[DONE]" ? 0 : 1));
  for await (const bytes of response.body ?? []) reader.feed(Buffer.from(bytes));
  reader.finish();
  return `${chunks} chunks`;
}

async function refusalResult(response: Response): Promise<string> {
  if (response.ok) return "was not refused";
  const { error } = (await response.json()) as { error: { code: string } };
  return `${response.status} ${error.code}`;
}
