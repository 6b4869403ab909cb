// @module-tag races
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { answeringGateway, type Answering, type AnsweringGateway } from "../../support/answering-gateway.ts";
import { startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { until } from "../../support/until.ts";
import { fetchAnswer, errorCode } from "../../support/wire-client.ts";

const line = "the gateway refuses the key of this proxy; check FAREBOX_GATEWAY_API_KEY";
const refused: Answering = { status: 401, body: '{"error":{"message":"no","code":"invalid_api_key"}}' };

let gateway: AnsweringGateway;
beforeAll(async () => {
  gateway = await answeringGateway(
    () => refused,
    () => refused,
  );
});
afterAll(() => gateway[Symbol.asyncDispose]());

it.each([1, 2])(
  "serve with a key that the gateway refuses logs one line at its start and serves, with %i processes",
  async (workers) => {
    await using folder = await temporaryFolder();
    await using serve = await startServe({
      database: join(folder.path, "farebox.db"),
      gateway: { url: gateway.url, apiKey: "sk-wrong" },
      args: ["--workers", String(workers)],
      env: { FAREBOX_AUTH: "open", FAREBOX_LOG_LEVEL: "info" },
    });
    await until(() => serve.stderr.includes(line));
    const chat = { model: "gpt-4o", max_tokens: 5, messages: [{ role: "user", content: "hello" }] };
    for (let count = 0; count < 6; count++) {
      const answer = await fetchAnswer({ url: serve.url, key: "none" }, chat);
      expect([answer.status, errorCode(answer)]).toEqual([502, "gateway_key_refused"]);
    }
    expect(
      (await fetchAnswer({ url: serve.url, key: "none" }, undefined, { method: "GET", path: "/readyz" })).status,
    ).toBe(200);
    expect(serve.stderr.split(line)).toHaveLength(2);
    expect(serve.stderr).not.toContain("sk-wrong");
  },
);
