import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { fetchText, type FetchBounds } from "../../../../src/cli/services/price-sources.ts";

const bounds: FetchBounds = { timeoutMs: 30_000, bytesMax: 1024 ** 2, redirectsMax: 2 };

let owned = new AsyncDisposableStack();
afterEach(async () => {
  await owned.disposeAsync();
  owned = new AsyncDisposableStack();
});

/** Starts a server on this machine; returns its address without a slash at the end. */
async function serving(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  owned.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("a downloaded table", () => {
  it("is decompressed", async () => {
    const url = await serving((_, response) =>
      response.setHeader("content-encoding", "gzip").end(gzipSync('{"é": 1}')),
    );
    expect(await fetchText(`${url}/data.json`, bounds)).toEqual({ ok: true, text: '{"é": 1}' });
  });

  it("is fetched through redirects on this machine, up to the allowed number", async () => {
    const url = await serving(({ url: path = "" }, response) => {
      const left = Number(path.slice(1));
      if (left === 0) response.end("table");
      else response.writeHead(302, { location: `/${left - 1}` }).end();
    });
    expect(await fetchText(`${url}/2`, bounds)).toEqual({ ok: true, text: "table" });
    expect(await fetchText(`${url}/3`, bounds)).toEqual({ ok: false, problem: `${url}/3 redirects more than 2 times` });
  });

  it.each([
    [
      "http://prices.example/",
      "redirects to http://prices.example/, which must begin with https://; plain http is allowed only for this machine",
    ],
    ["http://me:secret@127.0.0.1/", "redirects to http://127.0.0.1/, which must not contain a user name or password"],
    [
      "file:///etc/passwd",
      "redirects to null/etc/passwd, which must begin with https://; plain http is allowed only for this machine",
    ],
    ["http://[", "redirects to an invalid address"],
  ])("is not fetched through a redirect to %s", async (location, problem) => {
    const url = await serving((_, response) => response.writeHead(301, { location }).end());
    expect(await fetchText(`${url}/`, bounds)).toEqual({ ok: false, problem: `${url}/ ${problem}` });
  });

  it.each([
    [
      "a stated length",
      (_: IncomingMessage, response: ServerResponse) => response.end(Buffer.alloc(2 * 1024 ** 2, "a")),
    ],
    [
      "a compressed body",
      (_: IncomingMessage, response: ServerResponse) =>
        response.setHeader("content-encoding", "gzip").end(gzipSync(Buffer.alloc(64 * 1024 ** 2))),
    ],
    [
      "an endless body",
      (_: IncomingMessage, response: ServerResponse) => {
        const more = () => {
          while (response.write(Buffer.alloc(65_536)));
        };
        response.on("drain", more);
        more();
      },
    ],
  ])("is abandoned when it is too large: %s", async (_, answer) => {
    const url = await serving(answer);
    expect(await fetchText(`${url}/`, bounds)).toEqual({ ok: false, problem: `${url}/ is larger than 1 MB` });
  });

  it("is abandoned when the head or the body takes too long", async () => {
    const silent = await serving(() => undefined);
    expect(await fetchText(`${silent}/`, { ...bounds, timeoutMs: 100 })).toEqual({
      ok: false,
      problem: `${silent}/ was not downloaded within 0.1 s`,
    });
    const stuck = await serving((_, response) => void response.write("{"));
    expect(await fetchText(`${stuck}/`, { ...bounds, timeoutMs: 100 })).toEqual({
      ok: false,
      problem: `${stuck}/ was not downloaded within 0.1 s`,
    });
  });

  it("is refused after an error status, a closed port or a broken connection", async () => {
    const url = await serving(({ url: path }, response) =>
      path === "/cut" ? response.destroy() : response.writeHead(404).end("no"),
    );
    expect(await fetchText(`${url}/x?token=secret`, bounds)).toEqual({
      ok: false,
      problem: `${url}/x answered with status 404`,
    });
    expect(await fetchText(`${url}/cut`, bounds)).toMatchObject({
      ok: false,
      problem: expect.stringMatching(/\/cut cannot be downloaded: /),
    });
    expect(await fetchText("http://127.0.0.1:1/", bounds)).toMatchObject({
      ok: false,
      problem: expect.stringMatching(/cannot be downloaded: /),
    });
  });
});
