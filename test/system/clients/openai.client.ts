import { createReadStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import OpenAI, { APIError, AuthenticationError, InternalServerError, toFile } from "openai";
import { describe, expect, it } from "vitest";
import { temporaryHome } from "./support/program.ts";
import { describeSdk, weatherTool, type SdkClient, type CallParams } from "./support/sdk-contract.ts";
import { proxyOfFile, routeAsBilled, startWatchedProxy, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

const clientAt = (at: Endpoint) =>
  new OpenAI({ ...at, maxRetries: 1, organization: null, project: null, logLevel: "off" });

function bodyOf({ prompt, outputTokensMax, tool }: CallParams) {
  return {
    model: "gpt-4o",
    messages: [{ role: "user", content: prompt }],
    max_tokens: outputTokensMax,
    ...(tool === true && {
      tools: [{ type: "function", function: weatherTool as unknown as OpenAI.FunctionDefinition }],
      tool_choice: "required",
    }),
  } satisfies OpenAI.Chat.ChatCompletionCreateParams;
}

function answerOf({ choices: [choice], usage }: OpenAI.Chat.ChatCompletion) {
  return {
    text: choice?.message.content ?? "",
    usage: usage == null ? undefined : { input: usage.prompt_tokens, output: usage.completion_tokens },
    tools: (choice?.message.tool_calls ?? []).flatMap((call) =>
      call.type === "function"
        ? [{ name: call.function.name, input: JSON.parse(call.function.arguments) as unknown }]
        : [],
    ),
  };
}

const openai: SdkClient = {
  name: "openai",
  asksForUsage: false,
  async plain(at, params) {
    return answerOf(await clientAt(at).chat.completions.create(bodyOf(params)));
  },
  async streamed(at, params, received) {
    const usage = params.usage === true && { stream_options: { include_usage: true } };
    const runner = clientAt(at).chat.completions.stream({ ...bodyOf(params), ...usage });
    runner.on("content", (piece) => received(piece));
    return answerOf(await runner.finalChatCompletion());
  },
  sees: {
    wrongKey: {
      type: AuthenticationError,
      like: { status: 401, code: "invalid_api_key", message: expect.stringContaining("not a Farebox key") },
    },
    exhausted: {
      type: APIError,
      like: {
        status: 402,
        code: "budget_exceeded",
        type: "insufficient_quota",
        error: { metadata: { scope: "key:poor", period: "1d" } },
      },
    },
    cut: {
      type: APIError,
      like: {
        status: undefined,
        code: "gateway_stream_broken",
        message: "The gateway broke off in the middle of the stream.",
      },
    },
    brokenOff: { type: InternalServerError, like: { status: 502, code: "gateway_unreachable" } },
  },
};

describeSdk(openai, proxy);

describe("openai beyond chat completions", () => {
  const client = clientAt(proxy.rich);

  it("reads a plain response", async () => {
    const response = await client.responses.create({ model: "gpt-4o", input: "Say hello.", max_output_tokens: 60 });
    expect(response.output_text).not.toBe("");
    const { tokens } = routeAsBilled(await proxy.seen(), "/v1/responses");
    expect(response.usage).toMatchObject({ input_tokens: tokens.input, output_tokens: tokens.output });
  });

  it("reads a streamed response", async () => {
    const stream = await client.responses.create({
      model: "gpt-4o",
      input: "Say hello.",
      max_output_tokens: 60,
      stream: true,
    });
    const types: string[] = [];
    for await (const event of stream) types.push(event.type);
    expect(types.slice(0, 2)).toEqual(["response.created", "response.in_progress"]);
    expect(["response.completed", "response.incomplete"]).toContain(types.at(-1));
    routeAsBilled(await proxy.seen(), "/v1/responses");
  });

  it("raises when a streamed response is cut", async () => {
    proxy.gatewayWill("cut:5");
    const stream = await client.responses.create({ model: "gpt-4o", input: "Say hello.", stream: true });
    const read = async () => {
      for await (const _ of stream) continue;
    };
    await expect(read()).rejects.toMatchObject({ code: "gateway_stream_broken" });
    expect((await proxy.seen()).charges).toMatchObject([{ source: "partial" }]);
  });

  it("reads a completion", async () => {
    const completion = await client.completions.create({
      model: "gpt-3.5-turbo",
      prompt: "Once upon a time",
      max_tokens: 30,
    });
    expect(completion.choices[0]?.text).not.toBe("");
    expect((await proxy.seen()).charges).toMatchObject([
      { route: "/v1/completions", source: "reported", tokens: { output: completion.usage?.completion_tokens } },
    ]);
  });

  it("reads embeddings", async () => {
    const { data, usage } = await client.embeddings.create({ model: "text-embedding-3-small", input: ["one", "two"] });
    expect(data.map(({ embedding }) => embedding.length)).toEqual([1536, 1536]);
    expect(routeAsBilled(await proxy.seen(), "/v1/embeddings").tokens.input).toBe(usage.prompt_tokens);
  });

  it("generates and edits images", async () => {
    // The hold of an edited image exceeds 0.50 USD.
    await using proxy = await startWatchedProxy({ budget: "5" });
    const client = clientAt(proxy.rich);
    const made = await client.images.generate({ model: "gpt-image-1", prompt: "A harbour", quality: "low" });
    expect(made.data?.[0]?.b64_json).not.toBe("");
    expect(routeAsBilled(await proxy.seen(), "/v1/images/generations").tokens.image_output).toBe(
      made.usage?.output_tokens,
    );
    const image = await toFile(Buffer.alloc(300_000, 7), "harbour.png", { type: "image/png" });
    const edited = await client.images.edit({ model: "gpt-image-1", image, prompt: "Make it green" });
    expect(routeAsBilled(await proxy.seen(), "/v1/images/edits").tokens.image_output).toBe(edited.usage?.output_tokens);
  });

  it("creates speech, and transcribes a recording from a file", async () => {
    const speech = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input: "Good morning" });
    expect((await speech.arrayBuffer()).byteLength).toBeGreaterThan(1000);
    expect((await proxy.seen()).charges).toMatchObject([
      { route: "/v1/audio/speech", source: "counted", tokens: { input: 12 } },
    ]);
    await using home = await temporaryHome();
    const path = join(home.path, "speech.wav");
    await writeFile(path, Buffer.alloc(2_000_000, 3));
    // The hold follows from the file's size; for this model it fits in 0.50 USD.
    const model = "gpt-4o-mini-transcribe";
    const { text } = await client.audio.transcriptions.create({ model, file: createReadStream(path) });
    expect(text).not.toBe("");
    routeAsBilled(await proxy.seen(), "/v1/audio/transcriptions");
  });
});
