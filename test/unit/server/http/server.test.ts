import { once } from "node:events";
import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { BodyAllowance } from "../../../../src/server/http/body.ts";
import { createHttpApp } from "../../../../src/server/http/http-app.ts";
import { healthz } from "../../../../src/server/http/operations.ts";
import { createHttpServer } from "../../../../src/server/http/server.ts";
import { silentLog } from "../../../../src/platform/log.ts";
import type { Events } from "../../../../src/ports/events.ts";
import { notForwarded, type Handler } from "../../../../src/request/handler.ts";
import { systemClock } from "../../../../src/platform/clock.ts";
import { ask, expectRefusal, head, RawClient } from "../../../support/raw-client.ts";

const ignored = () => undefined;
const events: Events = {
  requestStarted: ignored,
  requestEnded: ignored,
  admitted: ignored,
  refused: ignored,
  unknownFields: ignored,
  streamBurst: ignored,
  adminFailed: ignored,
  posted: ignored,
  ledgerWrote: ignored,
  accountRead: ignored,
  taskEnded: ignored,
};

const slow: Handler = async (exchange) => {
  exchange.begin(200, [["content-type", "text/plain"]]);
  exchange.write(Buffer.from("so far"));
  return notForwarded;
};
const failing: Handler = async () => {
  throw new Error("a bug, with a secret in it");
};
const readsBody: Handler = async (exchange) => {
  const body = await exchange.readBody();
  if (body.ok) exchange.answer(200, [], String(body.bytes.length));
  return notForwarded;
};

const running: Server[] = [];
afterEach(() => {
  for (const server of running.splice(0)) server.close().closeAllConnections();
});

async function serve(app: RequestListener): Promise<string> {
  const server = createHttpServer(app);
  running.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const start = () =>
  serve(
    createHttpApp({
      routes: [
        { method: "get", path: "/healthz", handler: healthz },
        { method: "get", path: "/slow", handler: slow },
        { method: "get", path: "/failing", handler: failing },
        { method: "post", path: "/body", handler: readsBody },
      ],
      events,
      log: silentLog,
      clock: systemClock(),
      loopbackOnly: true,
      publicHost: "farebox.example",
      corsOrigins: [],
      bodyBytesMax: 1000,
      bodyMemory: new BodyAllowance(1000),
      running: ignored,
    }),
  );

describe("the HTTP server", () => {
  it("refuses a request without a host as one for an unknown host", async () => {
    expectRefusal(await ask(await start(), "GET /healthz HTTP/1.1\r\n\r\n"), 421, "unknown_host");
  });

  it.each([
    ["garbage", "GARBAGE\r\n\r\n", 400],
    ["another protocol", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400],
    ["an unknown method", "BREW /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
    ["a space in a name", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad Name: x\r\n\r\n", 400],
    ["two lengths", "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400],
    ["a length that is no number", "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400],
    ["headers of 20 kB", `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431],
  ])("answers %s in our errors' shape", async (_, request, status) => {
    using client = new RawClient(await start());
    const answer = await client.send(request).answer();
    expectRefusal(answer, status, "invalid_request");
    expect(answer.headers["connection"]).toEqual(["close"]);
    await client.closed();
  });

  it("answers a body that breaks its own framing", async () => {
    using client = new RawClient(await start());
    client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    expectRefusal(await client.answer(), 400, "invalid_request");
    await client.closed();
  });

  it("puts no error into an answer that has begun", async () => {
    using client = new RawClient(await start());
    client.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const { status, headers } = await client.answer();
    expect(status).toBe(200);
    expect(headers["x-farebox-error"]).toBeUndefined();
    let rest = "";
    client.socket.on("data", (bytes) => (rest += bytes.toString()));
    client.send("GARBAGE\r\n\r\n");
    await client.closed();
    expect(rest).not.toContain("HTTP/1.1 400");
  });

  it("does not mind an expectation that it does not know", async () => {
    const url = await start();
    expect(await ask(url, head(url, "GET /healthz", "Expect: the-unexpected"))).toMatchObject({ status: 200 });
  });

  it("answers targets that Express cannot read", async () => {
    const url = await start();
    for (const target of ["http://[", "http://", "://", "/%"])
      expectRefusal(
        await ask(url, head(url, `GET ${target}`)),
        target === "://" ? 400 : 404,
        target === "://" ? "invalid_request" : "not_found",
      );
  });

  it("reveals nothing of a failure of its own", async () => {
    const url = await start();
    const answer = await ask(url, head(url, "GET /failing"));
    expectRefusal(answer, 500, "internal_error");
    expect(answer.body).not.toContain("secret");
  });
});
