// @module-tag races
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, openSync, closeSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { cleanEnvironment, fareboxCommand, runFarebox, temporaryFolder } from "../../support/farebox-process.ts";
import { compileCache } from "../../support/node-flags.ts";
import { freePort } from "../../support/free-port.ts";
import { until } from "../../support/until.ts";

/** Target of a command's stream: the test, a closed pipe, or a full disk. */
type Stream = "read" | "closed" | "full";

interface Started {
  readonly child: ChildProcess;
  /** Text printed to the streams of kind `read`. */
  readonly text: () => string;
}

function start(args: readonly string[], env: Record<string, string>, [stdout, stderr]: [Stream, Stream]): Started {
  const [program = "", ...words] = fareboxCommand(args);
  const full = [stdout, stderr].includes("full") ? openSync("/dev/full", "w") : null;
  const targetOf = (stream: Stream) => (stream === "full" ? (full ?? "ignore") : "pipe");
  const child = spawn(program, words, {
    env: { ...cleanEnvironment(), NODE_COMPILE_CACHE: compileCache, ...env },
    stdio: ["ignore", targetOf(stdout), targetOf(stderr)],
  });
  if (full !== null) closeSync(full);
  let text = "";
  for (const [kind, pipe] of [
    [stdout, child.stdout],
    [stderr, child.stderr],
  ] as const) {
    if (kind === "closed") pipe?.destroy();
    else pipe?.setEncoding("utf8").on("data", (part: string) => (text += part));
  }
  return { child, text: () => text };
}

async function end({ child, text }: Started): Promise<{ code: number | null; text: string }> {
  const [code] = (await once(child, "close")) as [number | null];
  return { code, text: text() };
}

async function newLedger() {
  const folder = await temporaryFolder();
  const database = join(folder.path, "farebox.db");
  const keysOut = join(folder.path, "keys.tsv");
  const file = join(folder.path, "company.yaml");
  await writeFile(file, "keys: { alice: , bob: , carol: }");
  const env = { FAREBOX_DATABASE: database };
  const names = async () => {
    const { stdout } = await runFarebox(["keys", "list"], { env });
    return stdout
      .split("\n")
      .slice(1, -1)
      .map((line) => line.split("\t")[0])
      .toSorted();
  };
  return { env, file, keysOut, names, database, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

const hasFullDevice = existsSync("/dev/full");
const broken: readonly Stream[] = hasFullDevice ? ["closed", "full"] : ["closed"];

describe("apply", () => {
  it.each(broken)("makes all changes when stderr is %s", async (stderr) => {
    await using ledger = await newLedger();
    const { code } = await end(
      start(["apply", ledger.file, "--keys-out", ledger.keysOut], ledger.env, ["read", stderr]),
    );
    expect(code).toBe(0);
    expect(await ledger.names()).toEqual(["alice", "bob", "carol"]);
    expect((await readFile(ledger.keysOut, "utf8")).split("\n").map((line) => line.split("\t")[0])).toEqual([
      "alice",
      "bob",
      "carol",
      "",
    ]);
  });

  it.each(broken)("stops after the first key that it cannot print, and names it, when stdout is %s", async (stdout) => {
    await using ledger = await newLedger();
    const { code, text } = await end(start(["apply", ledger.file], ledger.env, [stdout, "read"]));
    expect(text).toMatch(
      /^farebox: alice was created, but its key was not written to stdout: .*(EPIPE|ENOSPC).*; print another one with farebox keys rotate alice; made 1 change; run apply again to make the others$/m,
    );
    expect(code).toBe(1);
    expect(await ledger.names()).toEqual(["alice"]);
    expect((await runFarebox(["apply", ledger.file], { env: ledger.env })).stdout).toMatch(/^bob\t\S+\ncarol\t\S+\n$/);
  });

  it.runIf(hasFullDevice)("reports in one sentence that the new keys could not be printed as JSON", async () => {
    await using ledger = await newLedger();
    expect(await end(start(["apply", ledger.file, "--json"], ledger.env, ["full", "read"]))).toEqual({
      code: 2,
      text: expect.stringMatching(/^created the ledger at \S+\nfarebox: stdout cannot be written: ENOSPC: [^\n]*\n$/),
    });
  });
});

it("commands end with their usual code when no one reads their output", async () => {
  await using ledger = await newLedger();
  await runFarebox(["apply", ledger.file], { env: ledger.env });
  expect(await end(start(["keys", "list"], ledger.env, ["closed", "read"]))).toEqual({ code: 0, text: "" });
  expect((await end(start(["keys", "show", "dora"], ledger.env, ["closed", "closed"]))).code).toBe(2);
});

it("demo removes its folder when its stdout is closed", async () => {
  await using folder = await temporaryFolder();
  const { code } = await end(start(["demo", "--once"], { TMPDIR: folder.path }, ["closed", "read"]));
  expect(await readdir(folder.path)).toEqual([]);
  expect(code).toBe(0);
});

describe("serve", () => {
  it.each(broken.flatMap((stream) => [[stream, 1] as const, [stream, 2] as const]))(
    "answers requests and ends with code 0 when stdout and stderr are %s, with %i workers",
    async (stream, workers) => {
      await using ledger = await newLedger();
      await using sandbox = await startSandbox();
      const port = await freePort();
      const env = {
        ...ledger.env,
        FAREBOX_GATEWAY_URL: sandbox.url,
        FAREBOX_GATEWAY_API_KEY: sandbox.apiKey,
        FAREBOX_PORT: String(port),
        FAREBOX_WORKERS: String(workers),
        FAREBOX_AUTH: "open",
        FAREBOX_LOG_LEVEL: "debug",
        FAREBOX_DRAIN: "0s",
      };
      const serve = start(["serve"], env, [stream, stream]);
      const url = `http://127.0.0.1:${port}`;
      const body = JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Say hello." }] });
      try {
        await until(async () => {
          expect(serve.child.exitCode).toBeNull();
          return (await fetch(`${url}/readyz`).catch(() => null))?.status === 200;
        });
        // Each request writes a line to the log.
        for (let sent = 0; sent < 5; sent++) {
          const headers = { "content-type": "application/json" };
          const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
          expect(answer.status).toBe(200);
          await answer.text();
        }
        serve.child.kill("SIGTERM");
        expect((await end(serve)).code).toBe(0);
      } finally {
        serve.child.kill("SIGKILL");
      }
    },
  );
});
