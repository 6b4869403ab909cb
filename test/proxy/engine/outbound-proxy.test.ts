import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/platform/clock.ts";
import { createGateway, type Engine } from "../../../src/gateway/gateway.ts";
import { fetchWhole } from "../../../src/request/fetch-whole.ts";
import { readAccountOnce } from "../../../src/server/account.ts";
import { connectProxy, type ConnectProxy } from "../../support/connect-proxy.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy, testEngine, type ProxyOptions, type RunningProxy } from "../../support/running-proxy.ts";
import { rawGateway, scriptedGateway, type OpenRequest, type ScriptedGateway } from "../../support/scripted-gateway.ts";
import { until } from "../../support/until.ts";

const usage = { prompt_tokens: 8, completion_tokens: 2, total_tokens: 10 };
const completion = JSON.stringify({ id: "x", object: "chat.completion", choices: [], usage });

let owned: AsyncDisposableStack;
let outbound: ConnectProxy;
let gateway: ScriptedGateway;
beforeEach(async () => {
  owned = new AsyncDisposableStack();
  outbound = owned.use(await connectProxy({ credentials: "user:p@ss word" }));
  gateway = owned.use(await scriptedGateway());
  // No other program of this machine resolves the name.
  outbound.routes.set("gateway.test:80", gateway.port).set("gateway.test:8080", gateway.port);
});
afterEach(() => owned.disposeAsync());

async function start(env: Record<string, string> = {}, options: ProxyOptions = {}): Promise<RunningProxy> {
  const proxy = `http://user:p%40ss%20word@127.0.0.1:${outbound.port}`;
  return owned.use(
    await startProxy({
      gatewayUrl: "http://gateway.test",
      ...options,
      env: { FAREBOX_GATEWAY_INSECURE: "1", HTTP_PROXY: proxy, ...env },
    }),
  );
}

function answer({ response }: OpenRequest, text = completion): void {
  response.writeHead(200, { "content-type": "application/json", "keep-alive": "timeout=60" }).end(text);
}

const authorization = `Basic ${Buffer.from("user:p@ss word").toString("base64")}`;

describe("a gateway behind a proxy of the network", () => {
  it("is reached with CONNECT, and its name is resolved by the proxy alone", async () => {
    const farebox = await start();
    const receiving = gateway.nextChat();
    const answered = farebox.chat({});
    answer(await receiving);
    expect((await answered).status).toBe(200);
    const { request } = await receiving;
    expect(request.url).toBe("/v1/chat/completions");
    expect(request.headers).toMatchObject({ host: "gateway.test", authorization: `Bearer ${farebox.sandbox.apiKey}` });
    expect(request.headers).not.toHaveProperty("proxy-authorization");
    expect(new Set(outbound.targets)).toEqual(new Set(["gateway.test:80"]));
    expect(new Set(outbound.heads.map((head) => head.authorization))).toEqual(new Set([authorization]));
    expect(await farebox.onlyCharge()).toMatchObject({ state: "posted", source: "reported" });
  });

  it("streams, and a port in its address is passed on", async () => {
    const farebox = await start({}, { gatewayUrl: "http://gateway.test:8080" });
    const receiving = gateway.nextChat();
    const answered = farebox.chat({ stream: true });
    const { response } = await receiving;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write('data: {"id":"x","choices":[{"index":0,"delta":{"content":"one"}}]}\n\n');
    const reader = ((await answered).body ?? new ReadableStream()).getReader();
    const first = Buffer.from((await reader.read()).value as Uint8Array).toString();
    expect(first).toContain("one");
    response.end(`data: ${JSON.stringify({ id: "x", choices: [], usage })}\n\ndata: [DONE]\n\n`);
    while (!(await reader.read()).done);
    expect(new Set(outbound.targets)).toEqual(new Set(["gateway.test:8080"]));
    expect(await farebox.onlyCharge()).toMatchObject({ state: "posted", source: "reported" });
  });

  it("may have an IPv6 address", async () => {
    outbound.routes.set("[2001:db8::1]:8080", gateway.port);
    const farebox = await start({}, { gatewayUrl: "http://[2001:db8::1]:8080" });
    const answered = farebox.chat({});
    answer(await gateway.nextChat());
    expect((await answered).status).toBe(200);
    expect(outbound.targets).toEqual(["[2001:db8::1]:8080"]);
  });

  it("uses a tunnel again for the next request", async () => {
    const farebox = await start();
    for (let round = 0; round < 3; round++) {
      const answered = farebox.chat({});
      answer(await gateway.nextChat());
      await (await answered).text();
      await farebox.serving.settled();
    }
    expect(outbound.targets).toEqual(["gateway.test:80"]);
  });

  it("uses a tunnel again only as long as it may be idle", async () => {
    const clock = manualClock();
    const proxy = { host: "127.0.0.1", port: outbound.port, isTls: false, credentials: "user:p@ss word" };
    const engine = (testEngine ?? "http-proxy-middleware") as Engine;
    const options = { baseUrl: "http://gateway.test", apiKey: "sk", clock, proxy };
    await using direct = await createGateway(engine, options);
    const fetchModels = async () => {
      const answered = fetchWhole(direct, "/v1/models", 3_600_000);
      answer(await gateway.next());
      expect(await answered).toMatchObject({ ok: true });
      for (let turns = 0; turns < 3; turns++) await turn();
      return outbound.targets.length;
    };
    expect(await fetchModels()).toBe(1);
    clock.advance(58_999);
    expect(await fetchModels()).toBe(1);
    clock.advance(59_000);
    expect(await fetchModels()).toBe(2);
  });

  it("gets a request again on a new tunnel if the idle one has closed", async () => {
    const farebox = await start();
    for (let round = 0; round < 2; round++) {
      const answered = farebox.chat({});
      const received = await gateway.nextChat();
      answer(received);
      expect((await answered).status).toBe(200);
      await farebox.serving.settled();
      const { socket } = received.request;
      socket.destroy();
      await until(() => outbound.open === 0);
    }
    expect((await farebox.charges()).map(({ state }) => state)).toEqual(["posted", "posted"]);
  });

  it.each([
    ["407 Proxy Authentication Required", "does not accept the user name and password (407)"],
    ["403 Forbidden", "refused or could not make the connection (403)"],
    ["502 Bad Gateway", "refused or could not make the connection (502)"],
    ["100 Continue", "refused or could not make the connection (100)"],
    // An engine would take the text for the gateway's answer, or connect again and again.
    ["200 OK\r\ncontent-length: 7\r\n\r\nwelcome", "sent data after its answer (200)"],
  ])("is not reached, and nothing is charged, if the proxy answers %s", async (refusal, says) => {
    outbound.refusal = refusal;
    const farebox = await start();
    for (const stream of [false, true]) {
      const response = await farebox.chat({ stream });
      expect(response.status).toBe(502);
      expect(await response.json()).toMatchObject({
        error: {
          code: "gateway_unreachable",
          message: `The gateway cannot be reached: the proxy 127.0.0.1:${outbound.port} ${says}.`,
        },
      });
    }
    expect((await farebox.charges()).map(({ state }) => state)).toEqual(["voided", "voided"]);
    expect(outbound.targets).toHaveLength(2);
  });

  it("is not reached without the right password, which appears in no answer", async () => {
    const farebox = await start({ HTTP_PROXY: `http://user:hunter2@127.0.0.1:${outbound.port}` });
    const response = await farebox.chat({});
    const text = await response.text();
    expect(text).toContain("(407)");
    expect(text).not.toMatch(/hunter2|user:|aHVudGVyM|dXNlc/);
  });

  it("is not reached if the proxy is down, cannot be found, or speaks no HTTP", async () => {
    const { port } = outbound;
    await outbound[Symbol.asyncDispose]();
    const farebox = await start();
    expect(await (await farebox.chat({})).json()).toMatchObject({
      error: {
        message: `The gateway cannot be reached: the proxy 127.0.0.1:${port} cannot be reached (ECONNREFUSED).`,
      },
    });
    const lost = await start({ HTTP_PROXY: "http://proxy.invalid:3128" });
    expect(await (await lost.chat({})).json()).toMatchObject({
      error: {
        message: expect.stringMatching(/the proxy proxy\.invalid:3128 cannot be reached \((ENOTFOUND|EAI_AGAIN)\)/),
      },
    });
    await using strange = await rawGateway((socket) => socket.write("SSH-2.0-OpenSSH_9.2\r\n"));
    const other = await start({ HTTP_PROXY: strange.url });
    expect(await (await other.chat({})).json()).toMatchObject({
      error: { message: expect.stringMatching(/ cannot be reached \(HPE_INVALID_CONSTANT\)\.$/) },
    });
    await using endless = await rawGateway((socket) => socket.write(`HTTP/1.1 200 OK\r\nx: ${"x".repeat(100_000)}`));
    const flooded = await start({ HTTP_PROXY: endless.url });
    expect(await (await flooded.chat({})).json()).toMatchObject({
      error: { message: expect.stringMatching(/ cannot be reached \(HPE_HEADER_OVERFLOW\)\.$/) },
    });
    for (const each of [farebox, lost, other, flooded]) expect((await each.onlyCharge()).state).toBe("voided");
  });

  it("costs nothing if the client leaves, or time runs out, before the proxy answers", async () => {
    outbound.refusal = undefined;
    const farebox = await start({}, { adjust: (s) => ({ ...s, gateway: { ...s.gateway, silenceMs: 200 } }) });
    const timed = await farebox.chat({});
    expect(timed.status).toBe(504);
    const leaving = new AbortController();
    const left = farebox.chat({}, { signal: leaving.signal });
    await outbound.arrived(2);
    leaving.abort();
    await expect(left).rejects.toThrow();
    expect((await farebox.charges()).map(({ state }) => state)).toEqual(["voided", "voided"]);
  });

  it("is charged as a direct one if the tunnel breaks after the request was sent", async () => {
    const farebox = await start();
    const answered = farebox.chat({});
    const { request } = await gateway.nextChat();
    request.socket.destroy();
    expect((await answered).status).toBe(502);
    expect(await farebox.onlyCharge()).toMatchObject({ state: "posted", source: "assumed" });
  });

  it("is reached directly if NO_PROXY exempts it, or if it is on this machine", async () => {
    const exempt = await start({ NO_PROXY: "other,gateway.test" });
    const response = await exempt.chat({});
    expect(await response.json()).toMatchObject({ error: { message: "The gateway cannot be reached." } });
    const own = await start({}, { gatewayUrl: gateway.url.replace("127.0.0.1", "localhost") });
    const answered = own.chat({});
    answer(await gateway.nextChat());
    expect((await answered).status).toBe(200);
    expect(outbound.targets).toEqual([]);
  });

  it("is also reached for the account record, by requests and by commands", async () => {
    const farebox = await start();
    const record = JSON.stringify({ success: true, data: { balance: 1 } });
    const headers = { authorization: `Bearer ${farebox.key}` };
    const answering = fetch(`${farebox.url}/account/info`, { headers });
    answer(await gateway.next(), record);
    expect((await answering).status).toBe(200);
    const read = readAccountOnce(farebox.settings, systemClock());
    answer(await gateway.next(), record);
    expect(await read).toMatchObject({ ok: true });
    expect(outbound.targets).toEqual(["gateway.test:80", "gateway.test:80"]);
    outbound.refusal = "403 Forbidden";
    expect(await readAccountOnce(farebox.settings, systemClock())).toEqual({
      ok: false,
      message:
        `the gateway at http://gateway.test cannot be reached: the proxy 127.0.0.1:${outbound.port} refused or could not ` +
        "make the connection (403); check HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
    });
  });

  it("leaves no open tunnel at the end of a proxy", async () => {
    const farebox = await start();
    const answered = farebox.chat({});
    answer(await gateway.nextChat());
    await (await answered).text();
    outbound.refusal = undefined;
    const waiting = farebox.chat({}).catch(() => undefined);
    await farebox[Symbol.asyncDispose]();
    await waiting;
    await until(() => outbound.open === 0);
  });
});
