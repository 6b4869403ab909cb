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

/** A server on this machine; its address, no slash at the end. */
async function serving(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  owned.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("a table that is downloaded", () => {
  it("is its text, a compression undone", async () => {
    const url = await serving((_, response) =>
      response.setHeader("content-encoding", "gzip").end(gzipSync('{"é": 1}')),
    );
    expect(await fetchText(`${url}/data.json`, bounds)).toEqual({ ok: true, text: '{"é": 1}' });
  });

  it("is found behind redirects on this machine, as many as are allowed", async () => {
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
      "redirects to http://prices.example/, which must begin with https://; plain http only to this machine",
    ],
    ["http://me:secret@127.0.0.1/", "redirects to http://127.0.0.1/, which must not hold a user name or password"],
    [
      "file:///etc/passwd",
      "redirects to null/etc/passwd, which must begin with https://; plain http only to this machine",
    ],
    ["http://[", "redirects to something that is no address"],
  ])("is not looked for at %s", async (location, problem) => {
    const url = await serving((_, response) => response.writeHead(301, { location }).end());
    expect(await fetchText(`${url}/`, bounds)).toEqual({ ok: false, problem: `${url}/ ${problem}` });
  });

  it.each([
    ["stated", (_: IncomingMessage, response: ServerResponse) => response.end(Buffer.alloc(2 * 1024 ** 2, "a"))],
    [
      "compressed",
      (_: IncomingMessage, response: ServerResponse) =>
        response.setHeader("content-encoding", "gzip").end(gzipSync(Buffer.alloc(64 * 1024 ** 2))),
    ],
    [
      "endless",
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

  it("is abandoned when it takes too long: before its head, and within its text", async () => {
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

  it("is not there: a status, a closed port, a broken connection", async () => {
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
