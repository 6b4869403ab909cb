import { afterAll, beforeAll, expect, it } from "vitest";
import type { Exchange } from "../../../src/ports/exchange.ts";
import type { GatewayReceiver } from "../../../src/ports/gateway.ts";
import { Forwarder, type ForwardParams } from "../../../src/request/forward.ts";
import { chatCompletions } from "../../../src/wire/endpoints/chat-completions.ts";
import { answeringGateway, type AnsweringGateway } from "../../support/answering-gateway.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { createMask } from "../../../src/request/response.ts";
import { patientClock } from "../../support/patient-clock.ts";

const eventStream = { "content-type": "text/event-stream" };
const deep = `${"[".repeat(30_000)}${"]".repeat(30_000)}`;
/** JSON of an object for which `String` throws. */
const noText = '{"toString":1,"valueOf":1}';

const answers: Record<
  string,
  { readonly path: string; readonly body: object; readonly answer: string; readonly isStream?: true }
> = {
  "an event of a response with an object as its type": {
    path: "/v1/responses",
    body: { input: "a", stream: true },
    answer: `{"type":${noText}}`,
    isStream: true,
  },
  "an event of a response with a deep type": {
    path: "/v1/responses",
    body: { input: "a", stream: true },
    answer: `{"type":${deep}}`,
    isStream: true,
  },
  "a chunk with a deep unknown member": {
    path: "/v1/chat/completions",
    body: { messages: [{ role: "user", content: "a" }], stream: true },
    answer: `{"x":${deep},"choices":[]}`,
    isStream: true,
  },
  "an event of images with an object as its type": {
    path: "/v1/images/generations",
    body: { model: "gpt-image-1", prompt: "a", stream: true },
    answer: `{"type":${noText}}`,
    isStream: true,
  },
  "a response with an object as its status": {
    path: "/v1/responses",
    body: { input: "a" },
    answer: `{"output":[],"status":${noText}}`,
  },
  "a request with an object as a tool's type": {
    path: "/v1/chat/completions",
    body: { messages: [{ role: "user", content: "a" }], tools: [{ type: { toString: 1, valueOf: 1 } }] },
    answer: "{}",
  },
};

let gateway: AnsweringGateway;
beforeAll(async () => {
  gateway = await answeringGateway(({ path, body }) => {
    const { answer = "", isStream = false } =
      answers[String((JSON.parse(body.toString()) as { user?: string }).user)] ?? {};
    return isStream
      ? { headers: eventStream, body: `data: ${answer}\n\n` }
      : { body: answer, headers: { "x-path": path } };
  });
});
afterAll(() => gateway[Symbol.asyncDispose]());

it.each(Object.keys(answers))("survives %s, with and without a hard budget", async (name) => {
  for (const budget of [undefined, "10"]) {
    const env = { FAREBOX_STREAM_SLICE: "64" };
    await using proxy = await startProxy({ gatewayUrl: gateway.url, env, clock: patientClock() });
    if (budget !== undefined) await proxy.budget("key:alice", budget);
    const { path = "", body = {} } = answers[name] ?? {};
    const answer = await fetch(proxy.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${proxy.key}` },
      body: JSON.stringify({ model: "gpt-4o", ...body, user: name }),
    });
    await answer.text();
    // A tool of an unknown type may run at the gateway, where its cost is unbounded.
    if (budget !== undefined && name.includes("tool")) expect(answer.status).toBe(400);
    else expect([answer.status, (await proxy.onlyCharge()).state]).toEqual([200, "posted"]);
  }
});

/** Forwards a stream of which the test plays the gateway and the client. */
function forwarding({ endpoint = chatCompletions, isSlow = false } = {}) {
  let receiver: GatewayReceiver | undefined;
  let leave: (() => void) | undefined;
  let aborted = 0;
  const ignore = () => undefined;
  const call = { sent: true, abort: () => void (aborted += 1), pause: ignore, resume: ignore };
  const forwarder = new Forwarder({
    gateway: { send: (_request: unknown, to: GatewayReceiver) => ((receiver = to), call) } as never,
    clock: { now: () => 0, monotonic: () => 0, after: () => ({ cancel: ignore }) },
    mask: createMask(""),
    keyWatch: { isRefused: false, setRefused: () => undefined },
    limits: { silenceMs: 1, wholeMs: 1 },
  });
  const exchange = {
    method: "POST",
    path: "/v1/chat/completions",
    onClientGone: (callback: () => void) => void (leave = callback),
    begin: ignore,
    write: () => !isSlow,
    onDrain: ignore,
    end: ignore,
    status: null,
    clientGone: false,
    startedAt: 0,
  };
  const forwarded = forwarder.forward({
    exchange: exchange as unknown as Exchange,
    path: "/",
    headers: {},
    body: undefined,
    endpoint,
    stream: true,
    dropUsageChunk: false,
    cutAtMaximum: null,
    watch: undefined,
    wholeBytesMax: null,
    inspect: () => null,
    ownHeaders: [],
    costHeaders: () => [],
  } satisfies ForwardParams);
  if (receiver === undefined || leave === undefined) throw new Error("nothing was sent");
  const header = (name: string) => (name === "content-type" ? "text/event-stream" : undefined);
  receiver.head({ status: 200, rawHeaders: [], header } as never);
  return { receiver, leave, forwarded, aborted: () => aborted };
}

it.each(["chunk", "end"])("an error that the reader of an answer throws fails its request: at the %s", async (when) => {
  const bug = () => {
    throw new Error("a bug");
  };
  const transcript = () => ({
    push: when === "chunk" ? bug : () => undefined,
    unreadBytes: 0,
    keptBytes: 0,
    read: () => undefined,
    readPiece: bug,
    statesError: () => false,
    tail: () => ({ isComplete: true, answer: undefined }),
    end: bug,
    everything: bug,
  });
  const { receiver, forwarded, aborted } = forwarding({ endpoint: { ...chatCompletions, transcript } });
  receiver.chunk(Buffer.from("data: {}\n\n"), false);
  if (when === "end") receiver.end();
  await expect(forwarded).rejects.toThrow("a bug");
  expect(aborted()).toBe(when === "chunk" ? 1 : 0);
});

it.each<[string, (receiver: GatewayReceiver) => void, boolean]>([
  ["is reset", (receiver) => receiver.fail({ kind: "reset", message: "reset" }), true],
  ["ends", (receiver) => receiver.end(), false],
])("a paused stream whose connection %s while the rest is read may have more output", async (_, finish, isUnread) => {
  const { receiver, leave, forwarded } = forwarding({ isSlow: true });
  const text = Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
  receiver.chunk(text, false);
  leave();
  receiver.chunk(text, false);
  finish(receiver);
  const { ending } = await forwarded;
  expect(ending).toMatchObject({ kind: "cut", reason: "client_left", texts: ["aa"] });
  expect("isUnread" in ending).toBe(isUnread);
});
