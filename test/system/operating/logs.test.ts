import { join } from "node:path";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly request_id?: string;
}

const [debug, warn] = [20, 40];

it("serve logs each request at debug and problems at warn with the request's id, without prompts or secrets", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  const key = (await runFarebox(["keys", "create", "alice"], { env: { FAREBOX_DATABASE: database } })).stdout.trim();
  await using serve = await startServe({ database, gateway: sandbox, env: { FAREBOX_LOG_LEVEL: "debug" } });
  const chat = async (scenario: string, more: object = {}) => {
    const answer = await fetch(`${serve.url}/v1/chat/completions?secret=in-query`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: "gpt-4o",
        messages: [{ role: "user", content: `Whispered words. #sandbox ${scenario}` }],
        max_tokens: 50,
        ...more,
      }),
    }).catch((error: unknown) => {
      throw new Error(
        `no answer to "${scenario}"; ${serve.hasEnded ? "the proxy ended" : "the proxy runs"} and wrote:\n${serve.stderr}`,
        { cause: error },
      );
    });
    await answer.text().catch(() => "");
    return { status: answer.status, id: answer.headers.get("x-farebox-request-id") ?? "" };
  };
  const plain = await chat("");
  const failing = await chat("status:503");
  const cut = await chat("cut:2", { stream: true });
  const gone = await chat("reset-before");
  expect([plain.status, failing.status, cut.status, gone.status]).toEqual([200, 503, 200, 502]);
  serve.signal("SIGTERM");
  const { stderr } = await serve.ended;
  const lines = stderr
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Line);
  const linesOf = ({ id }: { id: string }) =>
    lines.filter(({ request_id }) => request_id === id).map(({ level, msg }) => [level, msg]);

  expect(linesOf(plain)).toEqual([[debug, "request"]]);
  expect(linesOf(failing)).toEqual([[warn, "request failed"]]);
  expect(linesOf(cut)).toEqual(
    expect.arrayContaining([
      [debug, "request"],
      [warn, "settled with an uncertain cost or an overage"],
    ]),
  );
  expect(linesOf(gone)).toEqual(
    expect.arrayContaining([
      [warn, "request failed"],
      [warn, "settled with an uncertain cost or an overage"],
    ]),
  );
  expect(lines.filter(({ level, request_id }) => level >= warn && request_id === undefined)).toEqual([]);
  for (const secret of ["Whispered", "in-query", key, sandbox.apiKey]) expect(stderr).not.toContain(secret);
});
