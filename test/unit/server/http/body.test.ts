import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { readBody } from "../../../../src/server/http/body.ts";
import { BodyAllowance } from "../../../../src/server/http/body-memory.ts";
import { CountedBuffers } from "../../../support/kept-buffers.ts";
import { manualClock } from "../../../support/manual-clock.ts";

const piece = randomBytes(100_000);

/** Begins to read a body. The test sends its pieces through `request`. */
function reading(pool: BodyAllowance, headers: Readonly<Record<string, string>> = {}, limitBytes = 1_000_000) {
  const request = Object.assign(new Readable({ read: () => undefined }), { headers, complete: false });
  const rules = { limitBytes, memory: pool.open("a"), clock: manualClock() };
  return { request, result: readBody(request as unknown as IncomingMessage, rules) };
}

it("a refused body is not kept while its request is open", async () => {
  const buffers = new CountedBuffers();
  const { request, result } = reading(new BodyAllowance(1_000_000, manualClock()), {}, 250_000);
  for (let count = 0; count < 3; count++) request.push(buffers.copy(piece));
  expect(await result).toMatchObject({ ok: false, refusal: { code: "request_too_large" } });
  expect(await buffers.kept()).toBe(0);
  request.destroy();
});

it("the pieces of a body that was joined are not kept", async () => {
  const buffers = new CountedBuffers();
  const { request, result } = reading(new BodyAllowance(1_000_000, manualClock()));
  for (let count = 0; count < 3; count++) request.push(buffers.copy(piece));
  request.push(null);
  const read = await result;
  expect(read.ok && read.bytes.whole.length).toBe(3 * piece.length);
  expect(await buffers.kept()).toBe(0);
  request.destroy();
});

it("an encoded body that is refused while it waits for its turn is not kept, and others are decoded", async () => {
  const buffers = new CountedBuffers();
  const pool = new BodyAllowance(1_000_000, manualClock());
  const headers = { "content-encoding": "gzip" };
  const first = reading(pool, headers);
  const second = reading(pool, headers);
  first.request.push(buffers.copy(gzipSync(Buffer.alloc(800_000))));
  second.request.push(buffers.copy(gzipSync(Buffer.concat([piece, piece, piece, piece]))));
  first.request.push(null);
  second.request.push(null);
  const results = await Promise.all([first.result, second.result]);
  expect(results).toMatchObject([{ ok: true }, { ok: false, refusal: { code: "overloaded" } }]);
  expect(await buffers.kept()).toBe(0);
  for (const read of results) if (read.ok) read.release();
  expect(pool.bytes).toBe(0);
  first.request.destroy();
  second.request.destroy();
});
