// @module-tag races
import dns from "node:dns";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { IncomingMessage } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import type { AddressInfo } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fetchText } from "../../../src/cli/services/price-sources.ts";
import { proxyChoice, readOutbound } from "../../../src/config/outbound.ts";
import type { AddressRule } from "../../../src/core/addresses.ts";
import { createGateway, type Engine } from "../../../src/gateway/gateway.ts";
import { probeWebhook } from "../../../src/gateway/webhooks/probe.ts";
import { createWebhookSender } from "../../../src/gateway/webhooks/webhook-sender.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { fetchWhole } from "../../../src/request/fetch-whole.ts";
import { signedByPrivateAuthority } from "../../support/certificate.ts";
import { connectProxy, type ConnectProxy } from "../../support/connect-proxy.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { skipWithout } from "../../support/programs.ts";
import { until } from "../../support/until.ts";

const usage = { prompt_tokens: 8, completion_tokens: 2, total_tokens: 10 };
const completion = JSON.stringify({ id: "x", object: "chat.completion", choices: [], usage });
const v4 = "93.184.216.34";
const v6 = "2606:2800:220:1:248:1893:25c8:1946";

describe.skipIf(skipWithout("openssl"))("a proxy of the network", () => {
  const authorities = getCACertificates("default");
  const folder = tempFolder();
  let pair: ReturnType<typeof signedByPrivateAuthority>;
  let server: Server;
  let port: number;
  let outbound: ConnectProxy;
  const received: IncomingMessage[] = [];

  beforeAll(async () => {
    const names = ["DNS:gateway.test", "DNS:hooks.test", "DNS:localhost", `IP:${v4}`];
    pair = signedByPrivateAuthority(folder.path, names);
    server = createServer(pair, (request, response) => {
      received.push(request);
      request.resume().on("end", () => {
        const isRecord = request.url === "/account/info";
        const text = isRecord ? '{"success":true,"data":{"balance":1}}' : completion;
        response.writeHead(200, { "content-type": "application/json" }).end(text);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    ({ port } = server.address() as AddressInfo);
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    folder[Symbol.dispose]();
  });
  beforeEach(async () => {
    received.length = 0;
    outbound = await connectProxy();
    outbound.routes.set("gateway.test:443", port);
  });
  afterEach(() => outbound[Symbol.asyncDispose]());

  const chooseFor = (env: Record<string, string>) => proxyChoice(readOutbound(env, []).outbound);
  const servername = () => received.map(({ socket }) => (socket as TLSSocket & { servername?: string }).servername);

  describe("with a private authority in NODE_EXTRA_CA_CERTS", () => {
    const gateway = { url: "https://gateway.test", apiKey: "sk-gateway" };
    const chat = (url: string) =>
      fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hello" }] }),
      });

    it.each<[Engine, string]>([
      ["http-proxy-middleware", "1"],
      ["http-proxy-middleware", "2"],
      ["undici", "1"],
      ["undici", "2"],
    ])(
      "serve with %s and %s workers reaches an https gateway, whose name the proxy alone resolves",
      async (engine, workers) => {
        await using place = await temporaryFolder();
        const env = {
          FAREBOX_ENGINE: engine,
          FAREBOX_WORKERS: workers,
          FAREBOX_AUTH: "open",
          HTTPS_PROXY: outbound.url,
          NODE_EXTRA_CA_CERTS: pair.authority,
        };
        await using farebox = await startServe({ database: `${place.path}/farebox.db`, gateway, env });
        const answers = await Promise.all([chat(farebox.url), chat(farebox.url)]);
        expect(answers.map(({ status }) => status)).toEqual([200, 200]);
        expect(new Set(outbound.targets)).toEqual(new Set(["gateway.test:443"]));
        expect(new Set(servername())).toEqual(new Set(["gateway.test"]));
      },
    );

    it.each<Engine>(["http-proxy-middleware", "undici"])(
      "serve with %s reaches the gateway directly, and not at all without the variable",
      async (engine) => {
        await using place = await temporaryFolder();
        const direct = { url: `https://localhost:${port}`, apiKey: "sk-gateway" };
        const common = { FAREBOX_ENGINE: engine, FAREBOX_AUTH: "open" };
        const [trusting, strict] = [{ ...common, NODE_EXTRA_CA_CERTS: pair.authority }, common];
        await using first = await startServe({ database: `${place.path}/1.db`, gateway: direct, env: trusting });
        expect((await chat(first.url)).status).toBe(200);
        await using second = await startServe({ database: `${place.path}/2.db`, gateway: direct, env: strict });
        expect((await chat(second.url)).status).toBe(502);
        expect(outbound.targets).toEqual([]);
      },
    );

    it("doctor states the proxy", async () => {
      await using place = await temporaryFolder();
      const env = {
        FAREBOX_GATEWAY_URL: gateway.url,
        FAREBOX_GATEWAY_API_KEY: gateway.apiKey,
        FAREBOX_DATABASE: `${place.path}/farebox.db`,
        FAREBOX_PORT: "0",
        HTTPS_PROXY: `http://user:hunter2@127.0.0.1:${outbound.port}`,
        NODE_EXTRA_CA_CERTS: pair.authority,
      };
      const { stdout, code } = await runFarebox(["doctor"], { env, cwd: place.path });
      expect(code).toBe(0);
      expect(stdout).toMatch(
        new RegExp(`^ok\\tgateway\\thttps://gateway.test answers in \\d+ ms, via 127.0.0.1:${outbound.port}$`, "m"),
      );
      expect(stdout).not.toMatch(/hunter2|gateway proxy/);
      const untrusted = await runFarebox(["doctor"], {
        env: { ...env, NODE_EXTRA_CA_CERTS: undefined },
        cwd: place.path,
      });
      expect(untrusted.stdout).toMatch(/^failed\tgateway\t.*NODE_EXTRA_CA_CERTS/m);
    });
  });

  describe("in this process", () => {
    const lookupName = dns.lookup;
    const resolved = new Map<string, readonly string[]>();
    beforeAll(() => {
      setDefaultCACertificates([...authorities, readFileSync(pair.authority, "utf8")]);
      // Names of public addresses cannot be resolved without the network.
      const lookup = (name: string, options: dns.LookupAllOptions, callback: (...args: unknown[]) => void) => {
        const known = resolved.get(name);
        if (known === undefined) return lookupName(name, options, callback);
        const found = known.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
        process.nextTick(() => {
          if (options.all) callback(null, found);
          else callback(null, found[0]?.address, found[0]?.family);
        });
      };
      dns.lookup = lookup as unknown as typeof dns.lookup;
      syncBuiltinESMExports();
    });
    afterAll(() => {
      setDefaultCACertificates(authorities);
      dns.lookup = lookupName;
      syncBuiltinESMExports();
    });
    beforeEach(() => resolved.clear());

    async function deliver(url: string, rule: AddressRule = "strict", env: Record<string, string> = {}) {
      const choose = chooseFor({ HTTPS_PROXY: outbound.url, HTTP_PROXY: outbound.url, ...env });
      await using sender = createWebhookSender({ clock: systemClock(), choose });
      const sent = await sender.send({ url, rule, headers: {}, body: "hello" });
      return sent?.ok === false ? sent.error : sent?.ok;
    }

    it("gets the checked address of a webhook, never its name, and TLS is for the name", async () => {
      resolved.set("hooks.test", [v6, v4]);
      outbound.routes.set(`${v4}:443`, port);
      expect(await deliver("https://hooks.test/hook")).toBe(true);
      expect(outbound.targets).toEqual([`[${v6}]:443`, `${v4}:443`]);
      expect(servername()).toEqual(["hooks.test"]);
      expect(received[0]?.headers).toMatchObject({ host: "hooks.test", "content-length": "5" });
      const choose = chooseFor({ HTTPS_PROXY: outbound.url });
      const options = { choose, clock: systemClock() };
      expect(await probeWebhook("https://hooks.test/hook", "administrator", options)).toBeNull();
      expect(received).toHaveLength(1);
    });

    it("gets the address in a webhook's URL, with its port", async () => {
      outbound.routes.set(`${v4}:8443`, port);
      expect(await deliver(`https://${v4}:8443/hook`)).toBe(true);
      expect(outbound.targets).toEqual([`${v4}:8443`]);
    });

    it.each([
      [["10.0.0.1"], "strict", "the address is refused"],
      [[v4, "127.0.0.1"], "strict", "the address is refused"],
      [["169.254.169.254"], "administrator", "the address is refused"],
    ] as const)("gets no webhook to a name with the addresses %o under the rule %s", async (addresses, rule, error) => {
      resolved.set("hooks.test", addresses);
      expect(await deliver("https://hooks.test/hook", rule)).toBe(error);
      expect(await deliver(`https://${addresses.at(-1)}/hook`, rule)).toBe(error);
      expect(outbound.targets).toEqual([]);
    });

    it("gets no webhook to this machine, also not by another name, nor to exempt names and addresses", async () => {
      resolved.set("hooks.test", ["127.0.0.1"]);
      expect(await deliver(`https://hooks.test:${port}/hook`, "administrator")).toBe(true);
      expect(await deliver(`https://localhost:${port}/hook`, "administrator")).toBe(true);
      // Port 1 of this machine: a direct connection is refused.
      for (const NO_PROXY of ["hooks.test", "127.0.0.0/8"])
        expect(await deliver("https://hooks.test:1/hook", "administrator", { NO_PROXY })).toBe("ECONNREFUSED");
      expect(outbound.targets).toEqual([]);
    });

    it("does not weaken the check of a webhook's certificate", async () => {
      resolved.set("other.test", [v4]);
      outbound.routes.set(`${v4}:443`, port);
      expect(await deliver("https://other.test/hook")).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
      const choose = chooseFor({ HTTPS_PROXY: outbound.url });
      const options = { choose, clock: systemClock() };
      expect(await probeWebhook("https://other.test/", "strict", options)).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
      expect(received).toEqual([]);
    });

    it("that refuses a webhook is named, and one that does not answer ends with the time for the message", async () => {
      resolved.set("hooks.test", [v4]);
      outbound.refusal = "403 Forbidden";
      const refused = `the proxy 127.0.0.1:${outbound.port} refused or could not make the connection (403)`;
      expect(await deliver("https://hooks.test/hook")).toBe(refused);
      const choose = chooseFor({ HTTPS_PROXY: outbound.url });
      expect(await probeWebhook("https://hooks.test/", "strict", { choose, clock: systemClock() })).toBe(refused);
      outbound.refusal = undefined;
      const clock = manualClock();
      await using sender = createWebhookSender({ clock, choose });
      const send = () => sender.send({ url: "https://hooks.test/hook", rule: "strict", headers: {}, body: "hello" });
      const sent = send();
      await outbound.arrived(3);
      clock.advance(10_000);
      expect(await sent).toMatchObject({ ok: false, error: "no answer within 10 s" });
      const interrupted = send();
      await outbound.arrived(4);
      await sender[Symbol.asyncDispose]();
      expect(await interrupted).toBeUndefined();
      await until(() => clock.waiting === 0 && outbound.open === 0);
    });

    it("carries price tables, and is exempted by NO_PROXY", async () => {
      const { outbound: via } = readOutbound({ HTTPS_PROXY: outbound.url, HTTP_PROXY: "http://127.0.0.1:1" }, []);
      expect(await fetchText("https://gateway.test/prices.json", { outbound: via })).toEqual({
        ok: true,
        text: completion,
      });
      expect(outbound.targets).toEqual(["gateway.test:443"]);
      expect(await fetchText(`https://localhost:${port}/prices.json`, { outbound: via })).toMatchObject({ ok: true });
      outbound.refusal = "407 Who";
      expect(await fetchText("https://gateway.test/prices.json", { outbound: via })).toEqual({
        ok: false,
        problem:
          "https://gateway.test/prices.json cannot be downloaded: " +
          `the proxy 127.0.0.1:${outbound.port} needs a user name and password (407)`,
      });
      const { outbound: exempt } = readOutbound({ HTTPS_PROXY: outbound.url, NO_PROXY: ".test" }, []);
      expect(await fetchText("https://gateway.test/prices.json", { outbound: exempt })).toMatchObject({
        problem: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/),
      });
      expect(outbound.targets).toHaveLength(2);
    });

    it.each<Engine>(["http-proxy-middleware", "undici"])(
      "may itself be reached with TLS, verified for its own name, by %s, and its tunnels are used again",
      async (engine) => {
        await using secure = await connectProxy({ tls: pair, credentials: "user:naïve" });
        secure.routes.set("gateway.test:443", port);
        const proxy = (host: string) =>
          chooseFor({ https_proxy: `https://user:na%C3%AFve@${host}:${secure.port}` })(new URL("https://gateway.test"));
        const options = { baseUrl: "https://gateway.test", apiKey: "sk", clock: systemClock() };
        await using gateway = await createGateway(engine, { ...options, proxy: proxy("localhost") });
        for (let round = 0; round < 3; round++) {
          expect(await fetchWhole(gateway, "/v1/models", 10_000)).toMatchObject({ ok: true });
          // The engine then has its connection back.
          for (let turns = 0; turns < 3; turns++) await turn();
        }
        expect(secure.targets).toEqual(["gateway.test:443"]);
        await using misnamed = await createGateway(engine, { ...options, proxy: proxy("127.0.0.1") });
        expect(await fetchWhole(misnamed, "/v1/models", 10_000)).toMatchObject({
          failure: {
            kind: "proxy_failed",
            message: `the proxy 127.0.0.1:${secure.port} cannot be reached (ERR_TLS_CERT_ALTNAME_INVALID)`,
          },
        });
      },
    );

    it.each<Engine>(["http-proxy-middleware", "undici"])(
      "does not weaken the check of the gateway's certificate with %s",
      async (engine) => {
        outbound.routes.set("other.test:443", port);
        const options = { baseUrl: "https://other.test", apiKey: "sk", clock: systemClock() };
        const proxy = chooseFor({ HTTPS_PROXY: outbound.url })(new URL(options.baseUrl));
        await using gateway = await createGateway(engine, { ...options, proxy });
        expect(await fetchWhole(gateway, "/v1/models", 10_000)).toMatchObject({
          failure: { kind: "unreachable", message: expect.stringContaining("altname") },
        });
        expect(received).toEqual([]);
      },
    );

    it.each<Engine>(["http-proxy-middleware", "undici"])(
      "that never answers fails after a while with %s",
      async (engine) => {
        outbound.refusal = undefined;
        const clock = manualClock();
        const proxy = chooseFor({ HTTPS_PROXY: outbound.url })(new URL("https://gateway.test"));
        await using gateway = await createGateway(engine, {
          baseUrl: "https://gateway.test",
          apiKey: "sk",
          clock,
          proxy,
        });
        const answer = fetchWhole(gateway, "/v1/models", 600_000);
        await outbound.arrived(1);
        clock.advance(70_000);
        expect(await answer).toMatchObject({
          failure: {
            kind: "proxy_failed",
            message: `the proxy 127.0.0.1:${outbound.port} did not connect within 70 s`,
          },
        });
      },
    );
  });
});
