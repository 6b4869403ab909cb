import { once } from "node:events";
import OpenAI, { APIError } from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stillClock } from "../../support/still-clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { expectRefusal, head, RawClient } from "../../support/raw-client.ts";

/** More than the buffers on both sides of a connection hold. */
const megabytes = 24;
const megabyte = Buffer.alloc(1024 ** 2, "x");

let proxy: RunningProxy;
let limited: string;
beforeAll(async () => {
  // The minute of the request limit does not end.
  proxy = await startProxy({ env: { FAREBOX_BODY_LIMIT: "1mb" }, clock: stillClock() });
  limited = await proxy.addKey("limited", { limits: { rpm: 1 } });
  await (await proxy.chat({ model: "gpt-4o", messages: [] }, { key: limited })).arrayBuffer();
});
afterAll(() => proxy[Symbol.asyncDispose]());

/** Writes a whole request before reading a byte, as some clients do. Rejects if the connection is reset meanwhile. */
async function writeFirst(line: string, lines: readonly string[], start: string, isChunked: boolean) {
  using client = new RawClient(proxy.url);
  const reset = once(client.socket, "close").then(() =>
    Promise.reject(new Error("the connection was closed while the body was written")),
  );
  reset.catch(() => undefined);
  client.socket.pause();
  const size = isChunked
    ? "Transfer-Encoding: chunked"
    : `Content-Length: ${start.length + megabytes * megabyte.length}`;
  client.send(
    head(proxy.url, line, ...lines, size),
    isChunked && start !== "" ? `${start.length.toString(16)}\r\n${start}\r\n` : start,
  );
  for (let sent = 0; sent < megabytes; sent++) {
    const parts = isChunked ? [`${megabyte.length.toString(16)}\r\n`, megabyte, "\r\n"] : [megabyte];
    for (const part of parts) {
      await Promise.race([
        reset,
        new Promise<void>((resolve, reject) =>
          client.socket.write(part, (error) => (error ? reject(error) : resolve())),
        ),
      ]);
    }
  }
  if (isChunked) client.send("0\r\n\r\n");
  client.socket.resume();
  return await client.answer();
}

describe("a client that writes its whole body before it reads", () => {
  const json = "Content-Type: application/json";
  const form = ["Content-Type: multipart/form-data; boundary=b"];
  const file = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n';
  it.each([
    [
      "413 to a body with a stated length",
      "POST /v1/chat/completions",
      "key",
      [json],
      "",
      false,
      413,
      "request_too_large",
    ],
    ["413 to a body in chunks", "POST /v1/chat/completions", "key", [json], "", true, 413, "request_too_large"],
    ["413 to an upload in chunks", "POST /v1/audio/transcriptions", "key", form, file, true, 413, "request_too_large"],
    ["401", "POST /v1/chat/completions", "none", [json], "", false, 401, "invalid_api_key"],
    ["404", "POST /v1/nothing", "key", [json], "", false, 404, "not_found"],
    ["403", "POST /v1/chat/completions", "key", [json, "Origin: https://evil.example"], "", false, 403, "cross_site"],
    ["421", "POST /v1/chat/completions", "key", [json, "Host: evil.example"], "", false, 421, "unknown_host"],
    [
      "415",
      "POST /v1/chat/completions",
      "key",
      [json, "Content-Encoding: compress"],
      "",
      false,
      415,
      "unsupported_encoding",
    ],
    ["429", "POST /v1/chat/completions", "limited", [json], "", false, 429, "rate_limit_exceeded"],
  ] as const)("gets the answer %s", async (_what, line, who, lines, start, isChunked, status, code) => {
    const bearer = who === "none" ? [] : [`Authorization: Bearer ${who === "limited" ? limited : proxy.key}`];
    const answer = await writeFirst(line, [...bearer, ...lines], start, isChunked);
    expectRefusal(answer, status, code);
    expect(answer.headers["connection"]).toEqual(["close"]);
  });
});

it("the openai client sees the 413 and its message", async () => {
  const client = new OpenAI({ apiKey: proxy.key, baseURL: `${proxy.url}/v1`, maxRetries: 0, logLevel: "off" });
  const content = "x".repeat(megabytes * megabyte.length);
  for (let run = 0; run < 3; run++) {
    const error = await client.chat.completions.create({ model: "gpt-4o", messages: [{ role: "user", content }] }).then(
      () => undefined,
      (caught: unknown) => caught,
    );
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({
      status: 413,
      code: "request_too_large",
      message: expect.stringContaining("1048576"),
    });
  }
});
