import { describe, expect, it } from "vitest";
import { mergedUsage, messagesTranscript, readAnswer } from "../../../../src/wire/endpoints/messages-answer.ts";
import type { StreamAnswer } from "../../../../src/wire/stream-output.ts";
import {
  event,
  lastUsage,
  messageAnswer,
  messageDelta,
  messageStart,
  messageStop,
  messageStream,
  ping,
  startUsage,
  textBlock,
  textDelta,
} from "../../../support/messages-stream.ts";
import { everyByte } from "../streams.ts";

function streamed(...events: readonly string[]): StreamAnswer {
  const transcript = messagesTranscript();
  transcript.push(Buffer.from(events.join("")));
  return transcript.end();
}

const tokens = (answer: StreamAnswer) => answer.usage?.tokens;
const whole = { input: 100, cached_input: 1000, cache_write: 20, cache_write_1h: 10, output: 40, reasoning: 20 };
const thinking = [
  event("content_block_start", { index: 0, content_block: { type: "thinking", thinking: "", signature: "" } }),
  event("content_block_delta", { index: 0, delta: { type: "thinking_delta", thinking: "Hmm", estimated_tokens: 9 } }),
  event("content_block_delta", { index: 0, delta: { type: "signature_delta", signature: "c2VhbGVk" } }),
  event("content_block_stop", { index: 0 }),
].join("");
const call = [
  event("content_block_start", { index: 2, content_block: { type: "tool_use", id: "t", name: "read", input: {} } }),
  event("content_block_delta", { index: 2, delta: { type: "input_json_delta", partial_json: '{"pa' } }),
  event("content_block_delta", { index: 2, delta: { type: "input_json_delta", partial_json: 'th":1}' } }),
  event("content_block_stop", { index: 2 }),
].join("");

describe("a stream of a message", () => {
  it("is reported by the usages of its first and last event, however its bytes arrive", () => {
    const stream = messageStream();
    expect(streamed(stream)).toMatchObject({
      finished: true,
      servedModel: "opus",
      usage: { clamped: false },
      toolCalls: {},
    });
    expect(tokens(streamed(stream))).toMatchObject(whole);
    expect(streamed(stream).usage?.doubts).toBeUndefined();
    const transcript = messagesTranscript();
    for (const piece of everyByte(Buffer.from(stream))) {
      transcript.push(piece);
      transcript.read();
    }
    expect(transcript.end()).toEqual(everythingIn(stream));
  });

  it("keeps the prompt that its first event states, and its text, if it is cut after any event", () => {
    const all = [messageStart(), ping, thinking, textBlock(["One", " two", " three", " four"], 1), call];
    const events = all.join("").split(/(?<=\n\n)/);
    for (let count = 1; count <= events.length; count++) {
      const answer = streamed(...events.slice(0, count));
      expect([count, answer.finished, answer.usage, answer.error]).toEqual([count, false, undefined, undefined]);
      expect(answer.soFar?.usage.tokens).toMatchObject({
        input: 100,
        cached_input: 1000,
        cache_write_1h: 10,
        output: 1,
      });
      expect(answer.soFar?.isFinal).toBe(false);
    }
    const { texts, uncountable } = streamed(...events);
    expect([texts, uncountable?.sealedBytes]).toEqual([["Hmm", "One two three four", 'read{"path":1}'], 8]);
  });

  it("is not complete before its stop reason, and complete without message_stop", () => {
    expect(streamed(messageStart(), textBlock(["x"])).finished).toBe(false);
    expect(streamed(messageStart(), textBlock(["x"]), messageDelta())).toMatchObject({ finished: true, usage: {} });
    expect(streamed(messageStart(), textBlock(["x"]), messageStop).finished).toBe(true);
  });

  it("takes null in the last usage as not stated, and the largest count of the prompt", () => {
    const nulls = {
      input_tokens: null,
      cache_read_input_tokens: null,
      cache_creation_input_tokens: null,
      output_tokens: 60,
    };
    const answer = streamed(messageStart(), textBlock(["x"]), messageDelta(nulls), messageStop);
    expect([tokens(answer), answer.usage?.doubts]).toEqual([
      { ...tokens(streamed(messageStream())), output: 60, reasoning: 0 },
      undefined,
    ]);
    const more = streamed(messageStart(), textBlock(["x"]), messageDelta({ ...lastUsage, input_tokens: 150 }));
    expect([tokens(more)?.input, more.usage?.doubts]).toEqual([150, undefined]);
    const less = streamed(messageStart(), textBlock(["x"]), messageDelta({ ...lastUsage, input_tokens: 50 }));
    expect([tokens(less)?.input, less.usage?.doubts]).toEqual([100, undefined]);
  });

  it("takes the last output, also if it is below the estimate of the first event", () => {
    const start = messageStart({ ...startUsage, output_tokens: 8 });
    const answer = streamed(start, textBlock(["x"]), messageDelta({ ...lastUsage, output_tokens: 25 }), messageStop);
    expect(tokens(answer)).toMatchObject({ output: 5, reasoning: 20 });
    const small = streamed(start, textBlock(["x"]), messageDelta({ output_tokens: 2 }), messageStop);
    expect([tokens(small)?.output, small.usage?.doubts, small.usage?.rivals]).toEqual([2, undefined, undefined]);
  });

  it("does not add the estimate of the first event to the text of a stream without a last usage", () => {
    const start = messageStart({ ...startUsage, output_tokens: 8 });
    const error = event("error", { error: { type: "overloaded_error", message: "Overloaded" }, request_id: "r" });
    for (const end of ["", messageDelta(null) + messageStop, error]) {
      const { soFar, texts } = streamed(start, textBlock(["Hello"]), end);
      expect([soFar?.usage.tokens.output, soFar?.later, texts]).toEqual([8, { texts: [] }, ["Hello"]]);
    }
  });

  it("keeps a larger output of an earlier delta as a rival", () => {
    const shrinking = [{ output_tokens: 500 }, { output_tokens: 100 }].map((usage) => messageDelta(usage));
    const answer = streamed(messageStart(), textBlock(["x"]), ...shrinking, messageStop);
    expect(answer.usage?.doubts).toEqual(["usage_contradicts"]);
    expect(answer.usage?.rivals?.completions.map((rival) => rival.tokens.output)).toEqual([500]);
  });

  it("does not lose the output of a first attempt if a second message begins", () => {
    const answer = streamed(
      messageStart(),
      textBlock(["one"]),
      messageDelta({ output_tokens: 500 }),
      messageStart({ ...startUsage, input_tokens: 300 }),
      textBlock(["two"]),
      messageDelta({ output_tokens: 50 }),
      messageStop,
    );
    expect(answer.usage?.tokens.input).toBe(300);
    expect(answer.usage?.rivals?.completions.map((rival) => rival.tokens.output)).toEqual([500]);
  });

  it("counts the text if no usage covers it, and keeps the stated prompt", () => {
    for (const last of [messageDelta(null), messageDelta({ output_tokens: null }), ""]) {
      const answer = streamed(messageStart(), textBlock(["Hello", " you"]), last, messageStop);
      expect([answer.finished, answer.usage, answer.texts]).toEqual([true, undefined, ["Hello you"]]);
      expect(answer.soFar?.usage.tokens.input).toBe(100);
    }
    expect(streamed(messageStart(null), textBlock(["Hi"]), messageDelta(null), messageStop)).toMatchObject({
      usage: undefined,
      texts: ["Hi"],
    });
  });

  it("costs nothing if the model refused before its first output", () => {
    const refused = { finished: true, usage: undefined, error: { kind: "refused", reason: "refused_before_output" } };
    expect(streamed(messageStart(), messageDelta(null, "refusal"), messageStop)).toMatchObject(refused);
    expect(streamed(messageStart(), messageDelta({ output_tokens: 0 }, "refusal"), messageStop)).toMatchObject(refused);
    expect(streamed(messageStart(), messageDelta(null, "refusal"), messageStop).soFar).toBeUndefined();
  });

  it("costs its usage if the model refused after output, visible or not", () => {
    const last = messageDelta({ output_tokens: 7 }, "refusal");
    for (const output of [textBlock(["No"]), thinking, textBlock([]), ""]) {
      const answer = streamed(messageStart(), output, last, messageStop);
      expect([answer.error, tokens(answer)?.output]).toEqual([undefined, 7]);
    }
  });

  it("keeps its prompt and text if an error follows them, and is only an error without them", () => {
    const error = event("error", { error: { type: "overloaded_error", message: "Overloaded" }, request_id: "r" });
    const late = streamed(messageStart(), textBlock(["Hello"]), error);
    expect([late.finished, late.failed, late.usage, late.texts]).toEqual([true, true, undefined, ["Hello"]]);
    expect(late.soFar?.usage.tokens.input).toBe(100);
    const first = streamed(error);
    expect([first.soFar, first.texts, first.error?.kind]).toEqual([undefined, [], "refused"]);
    // A usage after the error covers the answer.
    expect(tokens(streamed(messageStart(), textBlock(["x"]), error, messageDelta(), messageStop))).toMatchObject(whole);
  });

  it("counts searches by the usage, and by the blocks without it", () => {
    const search = event("content_block_start", {
      index: 0,
      content_block: { type: "server_tool_use", id: "s", name: "web_search", input: {} },
    });
    const found = event("content_block_start", {
      index: 1,
      content_block: {
        type: "web_search_tool_result",
        tool_use_id: "s",
        content: [{ type: "web_search_result", title: "t" }],
      },
    });
    const stated = { ...lastUsage, server_tool_use: { web_search_requests: 2, web_fetch_requests: 3 } };
    expect(streamed(messageStart(), search, found, messageDelta(stated)).toolCalls).toEqual({ web_search_call: 2 });
    expect(streamed(messageStart(), search, found, messageDelta()).toolCalls).toEqual({ web_search_call: 1 });
    // The model wrote the call, but not its results.
    expect(streamed(messageStart(), search, found).texts).toEqual(["web_search"]);
  });

  it("reads deltas without a parser exactly as with one", () => {
    const pieces = Array.from({ length: 40 }, (_, index) => `piece "${index}" é\n`);
    const answer = streamed(messageStart(), textBlock(pieces), textBlock(pieces, 1));
    expect(answer.texts).toEqual([pieces.join(""), pieces.join("")]);
    // An event that looks like a delta but states more.
    const odd = textDelta("x").replace('"index":0', '"index":0,"usage":{"output_tokens":900}');
    const stated = streamed(messageStart(), textBlock(pieces), odd, messageDelta({ output_tokens: 9 }), messageStop);
    expect(stated.usage?.rivals?.completions.map((rival) => rival.tokens.output)).toEqual([900]);
  });

  const search = event("content_block_start", {
    index: 5,
    content_block: { type: "server_tool_use", id: "s", name: "web_search", input: {} },
  });
  it.each<[string, boolean, readonly string[]]>([
    ["an ordinary stream", true, [textBlock(["a", "b", "c"]), messageDelta()]],
    ["a text about usage", true, [textBlock(["a", '"usage":5 "server_tool_use"', "c"]), messageDelta()]],
    ["no usage at the end", false, [textBlock(["a", "b", "c"]), messageDelta(null)]],
    ["a null count at the end", false, [textBlock(["a", "b", "c"]), messageDelta({ output_tokens: null })]],
    [
      "a usage in the middle",
      false,
      [textBlock(["a"]), messageDelta({ output_tokens: 900 }), textBlock(["c"]), messageDelta()],
    ],
    [
      "a second start",
      false,
      [textBlock(["a"]), messageStart({ input_tokens: 9000 }), textBlock(["c"]), messageDelta()],
    ],
    [
      "another model in the middle",
      false,
      [textBlock(["a"]), event("ping", { model: "x" }), textBlock(["c"]), messageDelta()],
    ],
    ["an uncounted search", false, [search, textBlock(["a", "b", "c"]), messageDelta()]],
    ["a refusal after output", true, [textBlock(["a", "b", "c"]), messageDelta(undefined, "refusal")]],
    ["a refusal that counts no output", false, [textBlock(["a", "b"]), messageDelta({ output_tokens: 0 }, "refusal")]],
  ])("is read from its first and last events with the same result: %s", (_, isShort, middle) => {
    for (const first of [messageStart(), ping + messageStart(), messageStart().replaceAll("\n", "\r\n")]) {
      const stream = first + middle.join("") + messageStop;
      const transcript = messagesTranscript();
      transcript.push(Buffer.from(stream));
      const { answer, isComplete } = transcript.tail();
      expect([isComplete, answer !== undefined]).toEqual([true, isShort && first === messageStart()]);
      const { texts: _texts, uncountable: _uncountable, ...whole } = everythingIn(stream);
      if (answer !== undefined) expect(answer).toEqual({ ...whole, texts: [] });
    }
  });

  it("counts unknown blocks, members and events by their bytes", () => {
    const unknown = event("content_block_delta", { index: 0, delta: { type: "new_delta", wonder: "x".repeat(300) } });
    expect(streamed(messageStart(), unknown).uncountable?.unknownBytes).toBe(300);
    expect(streamed(messageStart(), event("wonder", { text: "x".repeat(500) })).uncountable?.unknownBytes).toBe(500);
  });
});

function everythingIn(stream: string): StreamAnswer {
  const transcript = messagesTranscript();
  transcript.push(Buffer.from(stream));
  return transcript.everything();
}

describe("mergedUsage", () => {
  it("does not split more cache writes than the first event states, unless they are mixed", () => {
    const short = { cache_creation_input_tokens: 30, cache_creation: { ephemeral_5m_input_tokens: 30 } };
    expect(mergedUsage(short, { cache_creation_input_tokens: 90 })).toEqual({ cache_creation_input_tokens: 90 });
    const mixed = { cache_creation_input_tokens: 30, cache_creation: { ephemeral_1h_input_tokens: 30 } };
    expect(mergedUsage(mixed, { cache_creation_input_tokens: 90 })).toMatchObject({ cache_creation: {} });
  });

  it("keeps names that objects have by themselves as ordinary members", () => {
    const odd = JSON.parse('{"__proto__":{"input_tokens":5},"output_tokens":1}') as Record<string, unknown>;
    expect(mergedUsage({}, odd)["input_tokens"]).toBeUndefined();
  });
});

describe("a whole message", () => {
  const read = (body: object) => readAnswer(Buffer.from(JSON.stringify(body)));

  it("is reported by its usage", () => {
    expect(read(messageAnswer())).toMatchObject({ isAnswer: true, usage: { tokens: whole }, texts: [], toolCalls: {} });
  });

  it("keeps the stated prompt if its runs have fewer tokens, and takes the output of its runs if it states none", () => {
    const iterations = [{ type: "message", input_tokens: 40, output_tokens: 9 }];
    const usage = { input_tokens: 100, iterations };
    expect(read(messageAnswer({ usage }))?.usage?.tokens).toMatchObject({ input: 100, output: 9 });
    const advised = { input_tokens: 100, iterations: [{ type: "advisor_message", model: "m", input_tokens: 40 }] };
    expect(read(messageAnswer({ usage: advised }))).toMatchObject({
      usage: undefined,
      soFar: { usage: { tokens: { input: 140 } } },
      texts: ["Hello there!"],
    });
  });

  it("is counted by its blocks without a usage", () => {
    const content = [
      { type: "thinking", thinking: "Hmm", signature: "c2ln" },
      { type: "text", text: "Hello", citations: [{ cited_text: "not written" }] },
      { type: "tool_use", id: "t", name: "read", input: { a: 1 } },
      {
        type: "web_search_tool_result",
        tool_use_id: "s",
        content: [{ type: "web_search_result", title: "not written" }],
      },
    ];
    expect(read(messageAnswer({ content, usage: undefined }))).toMatchObject({
      usage: undefined,
      texts: ["Hmm", "Hello", "read", '{"a":1}'],
      uncountable: { sealedBytes: 4, unknownBytes: 0 },
    });
  });

  it("costs nothing if it is an error, or a refusal before output", () => {
    const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
    expect(read(error)).toMatchObject({ isAnswer: false, usage: undefined, error: { kind: "refused" } });
    const usage = { ...startUsage, output_tokens: 0 };
    expect(read(messageAnswer({ content: [], stop_reason: "refusal", usage }))).toMatchObject({
      usage: undefined,
      error: { reason: "refused_before_output" },
    });
    expect(read(messageAnswer({ content: [], stop_reason: "refusal" }))?.error).toBeUndefined();
    expect(read(messageAnswer({ stop_reason: "refusal", usage }))?.error).toBeUndefined();
  });
});
