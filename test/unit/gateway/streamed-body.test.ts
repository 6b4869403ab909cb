import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createGateway, type Engine } from "../../../src/gateway/gateway.ts";
import type { BodySink, Gateway, GatewayFailure, StreamedBody } from "../../../src/ports/gateway.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { PassingBytes } from "../../support/passing-bytes.ts";
import { scriptedGateway, type ScriptedGateway } from "../../support/scripted-gateway.ts";

/** A body whose bytes come from the test. */
class GivenBody implements StreamedBody {
  readonly length: number | null;
  readonly #started = Promise.withResolvers<BodySink>();
  readonly started = this.#started.promise;
  #resumed = Promise.withResolvers<void>();

  constructor(length: number | null) {
    this.length = length;
  }
  start(sink: BodySink): void {
    this.#started.resolve(sink);
  }
  resume(): void {
    this.#resumed.resolve();
  }
  /** Resolves when the gateway accepts more bytes. */
  async drained(): Promise<void> {
    await this.#resumed.promise;
  }
  /** Makes `drained` wait for the next `resume`. */
  again(): void {
    this.#resumed = Promise.withResolvers<void>();
  }
}

describe.each<Engine>(["http-proxy-middleware", "undici"])("a streamed body with the engine %s", (engine) => {
  const everything = new AsyncDisposableStack();
  const clock = manualClock();
  let scripted: ScriptedGateway;
  let gateway: Gateway;
  beforeAll(async () => {
    scripted = everything.use(await scriptedGateway({ readBodies: false }));
    gateway = everything.use(await createGateway(engine, { baseUrl: scripted.url, apiKey: "sk-gateway", clock }));
  });
  afterAll(() => everything.disposeAsync());

  function sent(body: StreamedBody, { silenceMs = 60_000, by = gateway } = {}) {
    const over = Promise.withResolvers<GatewayFailure | "end">();
    const head = Promise.withResolvers<number>();
    const call = by.send(
      {
        method: "POST",
        path: "/v1/audio/transcriptions",
        headers: { "content-type": "multipart/form-data; boundary=b" },
        body,
        silenceMs,
      },
      {
        head: ({ status }) => head.resolve(status),
        chunk: () => undefined,
        end: () => over.resolve("end"),
        fail: (failure) => over.resolve(failure),
      },
    );
    return { call, head: head.promise, over: over.promise };
  }
  async function nextBytes(request: IncomingMessage): Promise<string> {
    const [bytes] = (await once(request, "data")) as [Buffer];
    return bytes.toString();
  }

  it.each([[6], [null]])("is sent piece by piece with the length %s", async (length) => {
    const body = new GivenBody(length);
    const call = sent(body);
    const sink = await body.started;
    sink.write(Buffer.from("abc"));
    const { request, response } = await scripted.next();
    expect(request.headers["content-length"]).toBe(length === null ? undefined : "6");
    expect(request.headers["transfer-encoding"]).toBe(length === null ? "chunked" : undefined);
    expect(await nextBytes(request)).toBe("abc");
    sink.write(Buffer.from("def"));
    expect(await nextBytes(request)).toBe("def");
    sink.end();
    request.resume();
    await once(request, "end");
    response.end("{}");
    expect(await call.over).toBe("end");
  });

  it("is read no faster than the gateway accepts it", async () => {
    await using by = await createGateway(engine, { baseUrl: scripted.url, apiKey: "sk-gateway", clock });
    using passing = new PassingBytes(null, scripted.url);
    const body = new GivenBody(null);
    const call = sent(body, { by });
    const sink = await body.started;
    let bytes = 0;
    const chunk = Buffer.alloc(65_536);
    const fill = () => {
      while (sink.write(chunk)) bytes += chunk.length;
      bytes += chunk.length;
    };
    sink.write(chunk);
    const { request, response } = await scripted.next();
    fill();
    // Apart from the bytes that the system buffers, few are accepted before the gateway reads.
    expect(bytes - passing.sent).toBeLessThan(1024 * 1024);
    body.again();
    request.resume();
    await body.drained();
    sink.end();
    await once(request, "end");
    response.end("{}");
    expect(await call.over).toBe("end");
  });

  it("can get a complete answer before its end", async () => {
    const body = new GivenBody(1_000_000);
    const call = sent(body);
    const sink = await body.started;
    sink.write(Buffer.alloc(1000));
    const { request, response, closed } = await scripted.next();
    request.resume();
    response.writeHead(413, { "content-type": "application/json" }).end('{"error":{}}');
    expect(await call.head).toBe(413);
    expect(await call.over).toBe("end");
    await closed;
    // The rest of the body is not accepted.
    expect(sink.write(Buffer.alloc(10))).toBe(false);
  });

  it("ends at the gateway at once when the call is cancelled", async () => {
    const body = new GivenBody(1_000_000);
    const call = sent(body);
    const sink = await body.started;
    sink.write(Buffer.alloc(1000));
    const { closed, response } = await scripted.next();
    call.call.abort();
    await closed;
    expect(response.writableFinished).toBe(false);
  });

  it("is not sent again after a redirect", async () => {
    const body = new GivenBody(3);
    const call = sent(body);
    const sink = await body.started;
    sink.write(Buffer.from("abc"));
    sink.end();
    const { request, response } = await scripted.next();
    request.resume();
    response.writeHead(307, { location: "/v1/elsewhere" }).end();
    expect(await call.over).toEqual({ kind: "redirect", status: 307 });
  });

  it("prevents the silence timeout of the gateway while it is sent", async () => {
    const body = new GivenBody(null);
    const call = sent(body, { silenceMs: 300 });
    const sink = await body.started;
    sink.write(Buffer.from("a"));
    const { request, response } = await scripted.next();
    for (let count = 0; count < 5; count++) {
      clock.advance(200);
      sink.write(Buffer.from("b"));
    }
    sink.end();
    request.resume();
    await once(request, "end");
    response.end("{}");
    expect(await call.over).toBe("end");
  });
});
