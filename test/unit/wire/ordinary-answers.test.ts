import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/wire/endpoint.ts";
import { audioEndpoints } from "../../../src/wire/endpoints/audio.ts";
import { chatCompletions } from "../../../src/wire/endpoints/chat-completions.ts";
import { completions } from "../../../src/wire/endpoints/completions.ts";
import { embeddings } from "../../../src/wire/endpoints/embeddings.ts";
import { imageEndpoints } from "../../../src/wire/endpoints/images.ts";
import { responses } from "../../../src/wire/endpoints/responses.ts";
import { everyByte } from "./streams.ts";

/*
 * Ordinary answers of each endpoint, as gateways send them, and their counted output. A change to how output is
 * recognized must not change them.
 */

type Message = Record<string, unknown>;

const chatHead = {
  id: "chatcmpl-1",
  created: 1,
  model: "gpt-4o-2024-11-20",
  service_tier: "default",
  system_fingerprint: "fp_1",
};
const logprobs = {
  content: [
    { token: "Hi", logprob: -0.1, bytes: [72, 105], top_logprobs: [{ token: "Hi", logprob: -0.1, bytes: [72, 105] }] },
  ],
  refusal: null,
};
const call = { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Bern"}' } };

const chat = (...messages: Message[]): object => ({
  ...chatHead,
  object: "chat.completion",
  choices: messages.map((message, index) => ({
    index,
    message: { role: "assistant", refusal: null, annotations: [], ...message },
    logprobs,
    finish_reason: "stop",
  })),
});

const plain: [string, Endpoint, object, string[]][] = [
  ["a chat", chatCompletions, chat({ content: "Hello there." }), ["Hello there."]],
  ["several choices", chatCompletions, chat({ content: "One" }, { content: "Two" }), ["One", "Two"]],
  [
    "calls of tools",
    chatCompletions,
    chat({ content: null, tool_calls: [call, call] }),
    ["weather", '{"city":"Bern"}', "weather", '{"city":"Bern"}'],
  ],
  [
    "a call of a function",
    chatCompletions,
    chat({ content: null, function_call: call.function }),
    ["weather", '{"city":"Bern"}'],
  ],
  [
    "shown reasoning",
    chatCompletions,
    chat({ content: "Four.", reasoning_content: "Two and two." }),
    ["Four.", "Two and two."],
  ],
  [
    "reasoning under its other name",
    chatCompletions,
    chat({ content: "Four.", reasoning: "Two and two." }),
    ["Four.", "Two and two."],
  ],
  ["a refusal", chatCompletions, chat({ content: null, refusal: "I cannot." }), ["I cannot."]],
  [
    "parts",
    chatCompletions,
    chat({
      content: [
        { type: "text", text: "One" },
        { type: "text", text: "Two" },
      ],
    }),
    ["One", "Two"],
  ],
  [
    "a completion",
    completions,
    {
      ...chatHead,
      object: "text_completion",
      choices: [{ index: 0, text: " a time", logprobs: null, finish_reason: "length" }],
    },
    [" a time"],
  ],
  ["a response", responses, response([message("Hello there.")]), ["Hello there."]],
  ["a response with a call", responses, response([functionCall('{"city":"Bern"}')]), ["weather", '{"city":"Bern"}']],
  [
    "a response with a summary",
    responses,
    response([reasoning("Two and two."), message("Four.")]),
    ["Two and two.", "Four."],
  ],
  [
    "a response that refuses",
    responses,
    response([{ ...message(""), content: [{ type: "refusal", refusal: "I cannot." }] }]),
    ["I cannot."],
  ],
  [
    "images",
    imageEndpoints[0] as Endpoint,
    {
      created: 1,
      background: "opaque",
      output_format: "png",
      quality: "low",
      size: "1024x1024",
      data: [{ b64_json: "aGVsbG8=" }],
    },
    [],
  ],
  ["a transcription", audioEndpoints[1] as Endpoint, { text: "Hello there." }, []],
  [
    "embeddings",
    embeddings,
    { object: "list", model: "m", data: [{ object: "embedding", index: 0, embedding: "AAAA" }] },
    [],
  ],
];

describe("the counted output of a plain answer", () => {
  it.each(plain)("is exactly the texts of %s", (_, endpoint, body, texts) => {
    const reader = endpoint.answerReader();
    reader.push(Buffer.from(JSON.stringify(body)));
    const answer = reader.end();
    expect(answer).toMatchObject({
      usage: undefined,
      servedModel: "model" in body ? body.model : null,
      texts,
      isAnswer: true,
    });
    expect(answer).not.toHaveProperty("uncountable");
  });
});

function response(output: object[], status = "completed"): Record<string, unknown> {
  return {
    id: "resp_1",
    object: "response",
    created_at: 1,
    completed_at: 2,
    status,
    background: false,
    error: null,
    incomplete_details: null,
    instructions: "Be brief.",
    max_output_tokens: null,
    max_tool_calls: null,
    metadata: { project: "harbour" },
    model: "gpt-4o-2024-11-20",
    output,
    parallel_tool_calls: true,
    previous_response_id: null,
    prompt_cache_key: null,
    reasoning: { effort: null, summary: "auto" },
    safety_identifier: null,
    service_tier: "default",
    store: true,
    temperature: 1,
    text: { format: { type: "text" }, verbosity: "medium" },
    tool_choice: "auto",
    tools: [{ type: "function", name: "weather", description: "Weather now", parameters: { type: "object" } }],
    top_logprobs: 0,
    top_p: 1,
    truncation: "disabled",
    usage: null,
    user: "ann",
  };
}
function message(text: string): Record<string, unknown> {
  return {
    type: "message",
    id: "msg_1",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text, annotations: [], logprobs: [] }],
  };
}
function functionCall(given: string, more: object = {}): Record<string, unknown> {
  return {
    type: "function_call",
    id: "fc_1",
    call_id: "call_1",
    name: "weather",
    arguments: given,
    status: "completed",
    ...more,
  };
}
function reasoning(...texts: string[]): Record<string, unknown> {
  return { type: "reasoning", id: "rs_1", summary: texts.map((text) => ({ type: "summary_text", text })) };
}

const chunk = (delta: Message, index = 0, more: object = {}): object => ({
  ...chatHead,
  object: "chat.completion.chunk",
  obfuscation: "a1b2c3",
  choices: [{ index, delta, logprobs: null, finish_reason: null, ...more }],
});
const finish = (index = 0): object => chunk({}, index, { finish_reason: "stop" });
const calling = (given: Message): object => chunk({ tool_calls: [{ index: 0, ...given }] });

let number = 0;
const event = (type: string, fields: object): object => ({ type, sequence_number: number++, ...fields });
const begun = [
  event("response.created", { response: response([], "in_progress") }),
  event("response.in_progress", { response: response([], "in_progress") }),
];

/** Returns the events of an output item, from its start to its end. */
const events = {
  message(index: number, ...pieces: string[]): object[] {
    const text = pieces.join("");
    const at = { item_id: "msg_1", output_index: index, content_index: 0 };
    return [
      event("response.output_item.added", {
        output_index: index,
        item: { ...message(""), status: "in_progress", content: [] },
      }),
      event("response.content_part.added", {
        ...at,
        part: { type: "output_text", text: "", annotations: [], logprobs: [] },
      }),
      ...pieces.map((delta) => event("response.output_text.delta", { ...at, delta, logprobs: [], obfuscation: "x1" })),
      event("response.output_text.done", { ...at, text, logprobs: [] }),
      event("response.content_part.done", {
        ...at,
        part: { type: "output_text", text, annotations: [], logprobs: [] },
      }),
      event("response.output_item.done", { output_index: index, item: message(text) }),
    ];
  },
  call(index: number, ...pieces: string[]): object[] {
    const given = pieces.join("");
    const at = { item_id: "fc_1", output_index: index };
    return [
      event("response.output_item.added", { output_index: index, item: functionCall("", { status: "in_progress" }) }),
      ...pieces.map((delta) => event("response.function_call_arguments.delta", { ...at, delta, obfuscation: "x1" })),
      event("response.function_call_arguments.done", { ...at, arguments: given }),
      event("response.output_item.done", { output_index: index, item: functionCall(given) }),
    ];
  },
  reasoning(index: number, ...pieces: string[]): object[] {
    const text = pieces.join("");
    const at = { item_id: "rs_1", output_index: index, summary_index: 0 };
    return [
      event("response.output_item.added", { output_index: index, item: reasoning() }),
      event("response.reasoning_summary_part.added", { ...at, part: { type: "summary_text", text: "" } }),
      ...pieces.map((delta) => event("response.reasoning_summary_text.delta", { ...at, delta, obfuscation: "x1" })),
      event("response.reasoning_summary_text.done", { ...at, text }),
      event("response.reasoning_summary_part.done", { ...at, part: { type: "summary_text", text } }),
      event("response.output_item.done", { output_index: index, item: reasoning(text) }),
    ];
  },
};

const streams: [string, Endpoint, object[], string[]][] = [
  [
    "a chat",
    chatCompletions,
    [
      chunk({ role: "assistant", content: "", refusal: null }),
      chunk({ content: "Hel" }),
      chunk({ content: "lo" }),
      finish(),
    ],
    ["Hello"],
  ],
  [
    "several choices",
    chatCompletions,
    [chunk({ content: "One" }), chunk({ content: "Two" }, 1), finish(), finish(1)],
    ["One", "Two"],
  ],
  [
    "calls of tools",
    chatCompletions,
    [
      calling({ id: "call_1", type: "function", function: { name: "weather", arguments: "" } }),
      calling({ function: { arguments: '{"city":' } }),
      calling({ function: { arguments: '"Bern"}' } }),
      finish(),
    ],
    ['weather{"city":"Bern"}'],
  ],
  [
    "shown reasoning",
    chatCompletions,
    [
      chunk({ reasoning_content: "Two " }),
      chunk({ reasoning_content: "and two." }),
      chunk({ content: "Four." }),
      finish(),
    ],
    ["Two and two.Four."],
  ],
  ["a refusal", chatCompletions, [chunk({ refusal: "I can" }), chunk({ refusal: "not." }), finish()], ["I cannot."]],
  [
    "a completion",
    completions,
    [
      {
        ...chatHead,
        object: "text_completion",
        choices: [{ index: 0, text: " a time", logprobs: null, finish_reason: "length" }],
      },
    ],
    [" a time"],
  ],
  [
    "a response",
    responses,
    [
      ...begun,
      ...events.message(0, "Hel", "lo"),
      event("response.completed", { response: response([message("Hello")]) }),
    ],
    ["Hello"],
  ],
  [
    "a response with a call",
    responses,
    [
      ...begun,
      ...events.call(0, '{"city":', '"Bern"}'),
      event("response.completed", { response: response([functionCall('{"city":"Bern"}')]) }),
    ],
    ["weather", '{"city":"Bern"}'],
  ],
  [
    "a response with a summary",
    responses,
    [
      ...begun,
      ...events.reasoning(0, "Two ", "and two."),
      ...events.message(1, "Four."),
      event("response.completed", { response: response([reasoning("Two and two."), message("Four.")]) }),
    ],
    ["Two and two.", "Four."],
  ],
  [
    "images",
    imageEndpoints[0] as Endpoint,
    [
      event("image_generation.partial_image", { b64_json: "aGVsbG8=" }),
      event("image_generation.completed", { b64_json: "aGVsbG8=" }),
    ],
    [],
  ],
  [
    "speech",
    audioEndpoints[0] as Endpoint,
    [event("speech.audio.delta", { audio: "aGVsbG8=" }), event("speech.audio.done", {})],
    [],
  ],
  [
    "a transcription",
    audioEndpoints[1] as Endpoint,
    [event("transcript.text.delta", { delta: "Hello" }), event("transcript.text.done", { text: "Hello" })],
    [],
  ],
];

describe("the counted output of a stream", () => {
  it.each(streams)("is exactly the texts of %s", (_, endpoint, all, texts) => {
    const bytes = Buffer.from(all.map((data) => `data: ${JSON.stringify(data)}\n\n`).join("") + "data: [DONE]\n\n");
    for (const pieces of [[bytes], everyByte(bytes)]) {
      const transcript = endpoint.transcript();
      for (const piece of pieces) transcript.push(piece);
      const isMedia = !JSON.stringify(all).includes("gpt-4o");
      const answer = transcript.end();
      expect(answer).toMatchObject({
        usage: undefined,
        servedModel: isMedia ? null : "gpt-4o-2024-11-20",
        finished: true,
      });
      expect(answer?.texts.filter((text) => text !== "")).toEqual(texts);
      expect(answer).not.toHaveProperty("uncountable");
    }
  });
});
