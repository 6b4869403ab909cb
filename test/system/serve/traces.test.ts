// @module-tag races
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { until } from "../../support/until.ts";
import { startTraceReceiver, type TraceReceiver } from "../../support/trace-receiver.ts";

interface Scene extends AsyncDisposable {
  readonly serve: ServeProcess;
  readonly receiver: TraceReceiver;
  chat(): Promise<number>;
}

/** Longest wait for the receiver, for tests in which it answers. */
const patient = { OTEL_EXPORTER_OTLP_TIMEOUT: "60000" };

/** Starts a real `serve` without keys that sends its traces to a receiver. */
async function startScene(env: Record<string, string> = {}, args: readonly string[] = []): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await temporaryFolder());
  const sandbox = owned.use(await startSandbox());
  const receiver = owned.use(await startTraceReceiver());
  const serve = owned.use(
    await startServe({
      database: join(folder.path, "farebox.db"),
      gateway: sandbox,
      args,
      env: { FAREBOX_AUTH: "open", OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...env },
    }),
  );
  const kept = owned.move();
  return {
    serve,
    receiver,
    async chat() {
      const answer = await fetch(`${serve.url}/v1/chat/completions`, {
        method: "POST",
        // Each request has its own connection, so that each worker gets some.
        headers: { "content-type": "application/json", connection: "close" },
        body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hello" }] }),
      });
      await answer.text();
      return answer.status;
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

describe.concurrent("serve with OTEL_EXPORTER_OTLP_ENDPOINT", () => {
  it("sends its spans before it ends, with the headers and names from the variables", async () => {
    await using scene = await startScene({
      ...patient,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20receiver-token",
      OTEL_SERVICE_NAME: "our-gateway",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=production",
      OTEL_EXPORTER_OTLP_COMPRESSION: "none",
    });
    const { serve, receiver } = scene;
    for (let count = 0; count < 3; count++) expect(await scene.chat()).toBe(200);
    serve.signal("SIGTERM");
    expect((await serve.ended).code).toBe(0);
    expect(receiver.spans.map(({ name }) => name)).toEqual(Array(3).fill("chat gpt-4o"));
    expect(receiver.spans[0]?.resource).toMatchObject({
      "service.name": "our-gateway",
      "deployment.environment.name": "production",
    });
    expect(receiver.requests[0]).toMatchObject({
      path: "/v1/traces",
      headers: { authorization: "Bearer receiver-token", "content-type": "application/x-protobuf" },
    });
    expect(serve.stdout + serve.stderr).not.toContain("receiver-token");
  });

  it("sends the spans of each worker, and counts them in one metric", async () => {
    await using scene = await startScene(patient, ["--workers", "2"]);
    const { serve, receiver } = scene;
    for (let count = 0; count < 8; count++) expect(await scene.chat()).toBe(200);
    await receiver.waitFor(8);
    const sent = async () => (await (await fetch(`${serve.url}/metrics`)).text()).match(/^farebox_spans_total\{.*$/gm);
    const counted = ['farebox_spans_total{result="sent"} 8', 'farebox_spans_total{result="lost"} 0'].join();
    await until(async () => (await sent())?.join() === counted, "8 spans are counted");
    for (let count = 0; count < 4; count++) await scene.chat();
    serve.signal("SIGTERM");
    expect((await serve.ended).code).toBe(0);
    expect(new Set(receiver.spans.map(({ attributes }) => attributes["farebox.request_id"])).size).toBe(12);
    expect(receiver.spans.filter(({ attributes }) => !(Number(attributes["farebox.cost_usd"]) > 0))).toEqual([]);
  });

  it("ends when the receiver is unreachable, and logs once that spans are lost", async () => {
    await using scene = await startScene({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" }, ["--workers", "2"]);
    const { serve } = scene;
    for (let count = 0; count < 6; count++) expect(await scene.chat()).toBe(200);
    serve.signal("SIGTERM");
    const { code, stderr } = await serve.ended;
    expect(code).toBe(0);
    expect(stderr.match(/spans cannot be sent/g)).toHaveLength(1);
  });

  it("ends when the receiver never completes its answer", async () => {
    await using scene = await startScene();
    const { serve, receiver } = scene;
    receiver.answer((response) => {
      const sending = setInterval(() => response.write("a"), 100);
      response.on("close", () => clearInterval(sending));
    });
    expect(await scene.chat()).toBe(200);
    await until(() => receiver.requests.length > 0, "a batch has arrived");
    // Without a limit, the process would wait forever.
    serve.signal("SIGTERM");
    expect((await serve.ended).code).toBe(0);
  });

  it("does not start with an unsupported protocol", async () => {
    await using folder = await temporaryFolder();
    const { code, stderr } = await runFarebox(["serve", "--database", join(folder.path, "farebox.db")], {
      env: {
        FAREBOX_GATEWAY_URL: "http://127.0.0.1:9",
        FAREBOX_GATEWAY_API_KEY: "sk-sandbox",
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4317",
        OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      },
    });
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr:
        "farebox: OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, the only protocol in which Farebox sends traces\n",
    });
  });
});
