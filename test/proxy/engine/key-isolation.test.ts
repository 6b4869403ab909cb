import { describe, expect, it } from "vitest";
import { gatewayHeaders, idempotencySecretOf } from "../../../src/request/forward.ts";
import type { Exchange } from "../../../src/ports/exchange.ts";
import { answeringGateway, type Answering, type ReceivedRequest } from "../../support/answering-gateway.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../../support/running-proxy.ts";
import { record } from "../../support/task-records.ts";
import { fetchAnswer } from "../../support/wire-client.ts";
import { stillClock } from "../../support/still-clock.ts";

/** Starts a proxy with the keys alice and bob, and a gateway that answers as the test specifies. */
async function startWithBob(
  answer: (received: ReceivedRequest) => Answering | Promise<Answering>,
  options: ProxyOptions = {},
) {
  const owned = new AsyncDisposableStack();
  const gateway = owned.use(await answeringGateway(answer));
  const proxy = owned.use(await startProxy({ clock: stillClock(), ...options, gatewayUrl: gateway.url }));
  const bob = await proxy.addKey("bob");
  return { gateway, proxy, bob, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Returns a gateway's answers that repeat the first answer for a repeated idempotency key, whatever is asked. */
function idempotent(answer: (received: ReceivedRequest) => Answering): (received: ReceivedRequest) => Answering {
  const first = new Map<string, Answering>();
  return (received) => {
    const value = String(received.headers["idempotency-key"]);
    const given = first.get(value) ?? answer(received);
    first.set(value, given);
    return given;
  };
}

const form =
  '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nsound\r\n--b--\r\n';
const json = "application/json";

/** Every path that forwards a body, with a body that it accepts. */
const requests: readonly (readonly [path: string, contentType: string, body: string])[] = [
  ["/v1/chat/completions", json, '{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}'],
  ["/v1/chat/completions", json, '{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hi"}]}'],
  ["/v1/responses", json, '{"model":"gpt-4o","input":"hi"}'],
  ["/v1/completions", json, '{"model":"gpt-4o","prompt":"hi"}'],
  ["/v1/embeddings", json, '{"model":"text-embedding-3-small","input":"hi"}'],
  ["/v1/images/generations", json, '{"model":"gpt-image-1","prompt":"hi"}'],
  ["/v1/audio/speech", json, '{"model":"tts-1","input":"hi","voice":"alloy"}'],
  ["/v1/audio/transcriptions", "multipart/form-data; boundary=b", form],
  ["/api/v1/task", json, '{"model":"kling","input":{}}'],
  ["/v1/moderations", json, '{"input":"hi"}'],
];

describe("an idempotency key", () => {
  it("is replaced by a value that differs between keys and stays the same for repeats, on every path", async () => {
    await using home = await startWithBob(() => ({ status: 400, body: "{}" }), { env: { FAREBOX_PASSTHROUGH: "all" } });
    const { proxy, gateway, bob } = home;
    const sent: string[][] = [];
    for (const [path, contentType, body] of requests) {
      const values: string[] = [];
      for (const [key, value] of [
        [proxy.key, "k"],
        [proxy.key, "k"],
        [bob, "k"],
        [proxy.key, "k2"],
      ] as const) {
        await fetchAnswer({ url: proxy.url, key }, body, {
          path,
          headers: { "content-type": contentType, "idempotency-key": value, "x-stainless-idempotency-key": value },
        });
        const headers = gateway.received.at(-1)?.headers;
        expect(headers?.["x-stainless-idempotency-key"]).toBe(headers?.["idempotency-key"]);
        values.push(String(headers?.["idempotency-key"]));
      }
      sent.push(values);
    }
    const [first] = sent;
    expect(sent).toEqual(requests.map(() => first));
    expect(first?.[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(first?.[1]).toBe(first?.[0]);
    expect(new Set(first).size).toBe(3);
  });

  it("is replaced by the same value after a restart, for clients without a key", async () => {
    await using gateway = await answeringGateway(() => ({ status: 400, body: "{}" }));
    const body = '{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}';
    for (let start = 0; start < 2; start++) {
      await using proxy = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_AUTH: "open" } });
      await fetch(`${proxy.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": json, "idempotency-key": "k" },
        body,
      });
    }
    const [one, other] = gateway.received.map(({ headers }) => headers["idempotency-key"]);
    expect(one).toMatch(/^[0-9a-f]{64}$/);
    expect(other).toBe(one);
  });

  it("is replaced by a value that depends on the gateway key, so that clients cannot compute it", () => {
    const exchange = {
      span: null,
      header: () => undefined,
      headers: () => [["idempotency-key", "k"]],
    } as unknown as Exchange;
    const [one, other] = ["a", "b"].map(
      (gatewayKey) =>
        gatewayHeaders(idempotencySecretOf(gatewayKey), exchange, { key: "alice", team: null }, "none")[
          "idempotency-key"
        ],
    );
    expect(one).not.toBe(other);
  });

  it("is repeated when a redirect is followed", async () => {
    await using home = await startWithBob(({ path }) =>
      path === "/v1/chat/completions"
        ? { status: 307, headers: { location: "/v1/chat/completions?again" } }
        : { status: 400, body: "{}" },
    );
    await home.proxy.chat({}, { headers: { "idempotency-key": "k" } });
    const [first, again] = home.gateway.received.map(({ headers }) => headers["idempotency-key"]);
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(again).toBe(first);
  });

  it("shared by two keys gives each its own answer and task at a gateway that repeats answers", async () => {
    let number = 0;
    const answer = ({ path }: ReceivedRequest): Answering => {
      number++;
      if (path === "/api/v1/task") return { body: record(`t-${number}`, "pending") };
      return {
        body: JSON.stringify({
          model: "gpt-4o",
          choices: [{ message: { content: `answer ${number}` } }],
          usage: { prompt_tokens: 3, completion_tokens: 2 },
        }),
      };
    };
    await using home = await startWithBob(idempotent(answer));
    const { proxy, bob } = home;
    for (const [path, , body] of [requests[0], requests[8]] as (typeof requests)[number][]) {
      const [mine, again, theirs] = await Promise.all(
        [proxy.key, proxy.key, bob].map(async (key) =>
          (
            await fetchAnswer({ url: proxy.url, key }, body, { path, headers: { "idempotency-key": `order ${path}` } })
          ).body.toString(),
        ),
      );
      expect(again).toBe(mine);
      expect(theirs).not.toBe(mine);
    }
  });
});

describe("an answer that shows a task of another key", () => {
  const creation = '{"model":"kling","task_type":"video_generation","input":{"prompt":"secret"}}';
  const at = (proxy: RunningProxy, key: string, path: string, body: string | undefined, method = "POST") =>
    fetchAnswer({ url: proxy.url, key }, body, { path, method });
  const noTask = async (proxy: RunningProxy) => {
    const { status, body } = await at(proxy, proxy.key, "/api/v1/task/t-never", undefined, "GET");
    return [status, body.toString()];
  };

  it.each<[string, Answering, object]>([
    [
      "that task's record",
      { body: record("t-1", "completed") },
      { state: "posted", source: "assumed", reason: "task_of_another_key" },
    ],
    [
      "that task's record in a conflict",
      { status: 409, body: record("t-1", "running") },
      { state: "voided", reason: "gateway_409" },
    ],
    [
      "that task's record next to a new one",
      { body: `{"task_id":"t-1","data":{"task_id":"t-2","status":"pending"}}` },
      { state: "posted", source: "assumed", reason: "task_of_another_key" },
    ],
    [
      "that task's record in a list",
      { body: `{"data":[{"task_id":"t-1","output":"secret"}]}` },
      { state: "posted", source: "assumed", reason: "task_of_another_key" },
    ],
  ])("gives a 404 to the creation of a task: %s", async (_what, answer, charge) => {
    let number = 0;
    await using home = await startWithBob(() => (++number === 1 ? { body: record("t-1", "pending") } : answer));
    const { proxy, bob } = home;
    await at(proxy, proxy.key, "/api/v1/task", creation);
    const refused = await at(proxy, bob, "/api/v1/task", creation);
    expect([refused.status, refused.body.toString()]).toEqual(await noTask(proxy));
    const [first, second] = await proxy.charges();
    expect(first).toMatchObject({ state: "pending" });
    expect(second).toMatchObject({ ...charge, status: 404 });
    expect(await proxy.serving.tasks.find("t-1")).toMatchObject({ status: "pending", settledAt: null });
    expect(await proxy.serving.tasks.find("t-2")).toBeUndefined();
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it.each(["GET", "DELETE"])("gives a 404 to a %s of the key's own task", async (method) => {
    let number = 0;
    await using home = await startWithBob((received) => ({
      body: received.method === "POST" ? record(`t-${++number}`, "pending") : record("t-1", "completed"),
    }));
    const { proxy, bob } = home;
    for (const key of [proxy.key, bob]) await at(proxy, key, "/api/v1/task", creation);
    const refused = await at(proxy, bob, "/api/v1/task/t-2", undefined, method);
    expect([refused.status, refused.body.toString()]).toEqual(await noTask(proxy));
    await proxy.serving.settled();
    for (const id of ["t-1", "t-2"])
      expect(await proxy.serving.tasks.find(id)).toMatchObject({ status: "pending", settledAt: null });
  });

  it.each([
    ["/v1/chat/completions", '{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}'],
    ["/v1/responses", '{"model":"gpt-4o","input":"hi"}'],
    ["/v1/embeddings", '{"model":"text-embedding-3-small","input":"hi"}'],
    ["/v1/tasks/recent", "{}"],
  ])("gives a 404 at %s, and the hold is charged", async (path, body) => {
    await using home = await startWithBob(() => ({ body: record("t-1", "pending") }), {
      env: { FAREBOX_PASSTHROUGH: "all" },
    });
    const { proxy, bob } = home;
    await at(proxy, proxy.key, "/api/v1/task", creation);
    const refused = await at(proxy, bob, path, body);
    expect([refused.status, refused.body.toString()]).toEqual(await noTask(proxy));
    const [, second] = await proxy.charges();
    expect(second).toMatchObject({
      state: "posted",
      source: path.startsWith("/v1/tasks") ? expect.any(String) : "assumed",
      reason: "task_of_another_key",
    });
    expect(second?.cost).toBe(second?.hold);
  });

  it("passes if the task is the key's own, or if only an input or a message names another key's task", async () => {
    const answers = [
      record("t-1", "pending"),
      record("t-2", "pending").replace('"input":{', '"input":{"task_id":"t-1",'),
      `{"choices":[{"message":{"content":"{\\"task_id\\":\\"t-1\\"}"}}]}`,
    ];
    await using home = await startWithBob(() => ({ body: answers.shift() ?? "" }));
    const { proxy, bob } = home;
    expect((await at(proxy, proxy.key, "/api/v1/task", creation)).status).toBe(200);
    expect((await at(proxy, bob, "/api/v1/task", creation)).status).toBe(200);
    expect(
      (await at(proxy, bob, "/v1/chat/completions", '{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}'))
        .status,
    ).toBe(200);
  });
});
