import { once } from "node:events";
import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { BodyAllowance } from "../../../../src/server/http/body-memory.ts";
import { answerCsv } from "../../../../src/server/http/admin/csv.ts";
import { createHttpApp, type Route, createHttpServer } from "../../../../src/server/http/http-app.ts";
import { healthz } from "../../../../src/server/http/operations.ts";
import { silentLog } from "../../../support/captured-log.ts";
import type { Events } from "../../../../src/ports/events.ts";
import { notForwarded, type Handler } from "../../../../src/ports/exchange.ts";
import { systemClock } from "../../../../src/platform/clock.ts";
import { fetchRaw, expectRefusal, head, RawClient } from "../../../support/raw-client.ts";

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
  spansSent: ignored,
  gatewayKey: ignored,
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

const standardRoutes: readonly Route[] = [
  { method: "get", path: "/healthz", handler: healthz },
  { method: "get", path: "/slow", handler: slow },
  { method: "get", path: "/failing", handler: failing },
  { method: "post", path: "/body", handler: readsBody },
];

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

const start = (routes: readonly Route[] = standardRoutes) =>
  serve(
    createHttpApp({
      routes,
      events,
      log: silentLog,
      clock: systemClock(),
      loopbackOnly: true,
      publicHost: "farebox.example",
      corsOrigins: [],
      bodyBytesMax: 1000,
      bodyMemory: new BodyAllowance(1000, systemClock()),
      running: ignored,
    }),
  );

describe("the HTTP server", () => {
  it("refuses a request without a host as one for an unknown host", async () => {
    expectRefusal(await fetchRaw(await start(), "GET /healthz HTTP/1.1\r\n\r\n"), 421, "unknown_host");
  });

  it.each([
    ["garbage", "GARBAGE\r\n\r\n", 400],
    ["another protocol", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400],
    ["an unknown method", "BREW /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
    ["a space in a name", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad Name: x\r\n\r\n", 400],
    ["two lengths", "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400],
    ["a length that is not a number", "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400],
    ["headers of 20 kB", `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431],
  ])("answers %s with a JSON error", async (_, request, status) => {
    using client = new RawClient(await start());
    const answer = await client.send(request).answer();
    expectRefusal(answer, status, "invalid_request");
    expect(answer.headers["connection"]).toEqual(["close"]);
    await client.closed();
  });

  it("answers a body with invalid framing with an error", async () => {
    using client = new RawClient(await start());
    client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    expectRefusal(await client.answer(), 400, "invalid_request");
    await client.closed();
  });

  it("adds no error to an answer that has begun", async () => {
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

  it("ignores an unknown Expect header", async () => {
    const url = await start();
    expect(await fetchRaw(url, head(url, "GET /healthz", "Expect: the-unexpected"))).toMatchObject({ status: 200 });
  });

  it("refuses targets that Express cannot read", async () => {
    const url = await start();
    for (const target of ["http://[", "http://", "://", "/%"])
      expectRefusal(
        await fetchRaw(url, head(url, `GET ${target}`)),
        target === "://" ? 400 : 404,
        target === "://" ? "invalid_request" : "not_found",
      );
  });

  it("reveals nothing about an internal error", async () => {
    const url = await start();
    const answer = await fetchRaw(url, head(url, "GET /failing"));
    expectRefusal(answer, 500, "internal_error");
    expect(answer.body).not.toContain("secret");
  });
});

describe("a list as CSV", () => {
  /** Serves a list with `rows` rows. Its pages from row `failsAt` on cannot be read. */
  async function list(rows: number, failsAt = Infinity): Promise<string> {
    const lines = ({ from, to }: { readonly from: number; readonly to: number }) => ({
      text: Array.from({ length: to - from }, (_, index) => `${from + index}\r\n`).join(""),
      count: to - from,
    });
    const page = (from: number) => {
      const to = Math.min(from + 1000, rows);
      return { from, to, next: to < rows ? String(to) : null };
    };
    const handler: Handler = (exchange) =>
      answerCsv(exchange, { name: "list", header: "row\r\n", lines }, page(0), async (cursor) =>
        Number(cursor) >= failsAt
          ? { ok: false, kind: "invalid", message: "the cursor is gone" }
          : { ok: true, json: page(Number(cursor)) },
      );
    return `${await start([{ method: "get", path: "/list", handler }])}/list`;
  }

  it("ends after 100,000 rows and states that the list is longer", async () => {
    const rows = (await (await fetch(await list(100_500))).text()).split("\r\n");
    expect(rows.slice(-3)).toEqual(["99999", '"The list is longer; this file has its first 100,000 rows."', ""]);
    expect(rows).toHaveLength(100_003);
    expect((await (await fetch(await list(100_000))).text()).split("\r\n").slice(-2)).toEqual(["99999", ""]);
  });

  it("states how far an incomplete search has examined the rows", async () => {
    const at = "2026-11-01T12:00:00.000Z";
    const page = { next: null, examined_to: at };
    const handler: Handler = (exchange) =>
      answerCsv(exchange, { name: "list", header: "row\r\n", lines: () => ({ text: "1\r\n", count: 1 }) }, page, () => {
        throw new Error("the list has one page");
      });
    const answer = await fetch(`${await start([{ method: "get", path: "/list", handler }])}/list`);
    expect((await answer.text()).split("\r\n")).toEqual([
      "row",
      "1",
      `Only the rows since ${at} were searched; choose an earlier time range for older rows.`,
      "",
    ]);
  });

  it("is cut off if a later page cannot be read", async () => {
    const answer = await fetch(await list(5000, 3000));
    await expect(answer.text()).rejects.toThrow();
  });

  it("has no body for HEAD", async () => {
    const answer = await fetch(await list(5000), { method: "HEAD" });
    expect([answer.status, await answer.text()]).toEqual([200, ""]);
  });
});
