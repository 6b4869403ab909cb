// @module-tag races
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import {
  runFarebox,
  startFarebox,
  startInTerminal,
  startServe,
  temporaryFolder,
  type Ended,
} from "../../support/farebox-process.ts";
import { skipWithout } from "../../support/programs.ts";
import { until } from "../../support/until.ts";

/** Creates a ledger with the key `alice`, and a gateway. */
async function setUp() {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(await temporaryFolder());
  const sandbox = owned.use(await startSandbox({}));
  const database = join(folder.path, "ledger.db");
  const env = {
    FAREBOX_GATEWAY_URL: sandbox.url,
    FAREBOX_GATEWAY_API_KEY: sandbox.apiKey,
    FAREBOX_DATABASE: database,
    FAREBOX_PORT: "0",
  };
  const farebox = (...args: string[]) => runFarebox(args, { env });
  const key = (await farebox("keys", "create", "alice")).stdout.trim();
  const kept = owned.move();
  return {
    folder: folder.path,
    sandbox,
    database,
    env,
    key,
    farebox,
    json: async (...args: string[]) => JSON.parse((await farebox(...args, "--json")).stdout) as never,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

function postedIn(database: string): unknown {
  const db = new Database(database, { readonly: true });
  try {
    return db.prepare("select count(*) from charges where state = 'posted'").pluck().get();
  } finally {
    db.close();
  }
}

/** Returns the command that runs this source with Node. */
const node = (source: string) => [process.execPath, "--input-type=module", "-e", source];

/** Returns source that sends a chat request with these fields, and that can `ask` again. */
const chat = (more = "{}") => `
  const ask = (more) => fetch(process.env.OPENAI_BASE_URL + "/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer " + process.env.OPENAI_API_KEY },
    body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hello" }], max_tokens: 20, ...more }),
  });
  const answer = await ask(${more});
  await answer.text();
`;

const session = /farebox: session (run_[a-z2-7]{20}) of alice: /;

interface SessionReport {
  readonly rows: readonly {
    readonly "tag:session": string | null;
    readonly requests: number;
    readonly cost_usd: string;
  }[];
}

describe("farebox run", () => {
  it("starts a proxy, hides Farebox's settings from the command, and prints its cost", async () => {
    await using at = await setUp();
    const ended = await at.farebox(
      "run",
      "--tag",
      "feature=search",
      "--budget",
      "0.50",
      "--",
      ...node(`${chat()}
        await (await ask({ model: "gpt-4o-mini" })).text();
        console.log(answer.status, JSON.stringify(Object.keys(process.env).filter((name) => /FAREBOX|OPENAI|ANTHROPIC/i.test(name)).sort()));
        console.log(JSON.stringify(process.env).includes(${JSON.stringify(at.sandbox.apiKey)}), process.argv.join(" "));
      `),
    );
    expect(ended).toMatchObject({ code: 0 });
    const [first, second] = ended.stdout.split("\n");
    expect(first).toBe('200 ["ANTHROPIC_AUTH_TOKEN","ANTHROPIC_BASE_URL","OPENAI_API_KEY","OPENAI_BASE_URL"]');
    expect(second).toMatch(/^false /);
    const id = session.exec(ended.stderr)?.[1] ?? "";
    expect(ended.stderr.split("\n")).toEqual([
      expect.stringMatching(/^farebox: session run_\w+ of alice: 2 requests, \d+ tokens, USD 0\.\d+$/),
      expect.stringMatching(/^ {2}gpt-4o: 1 request, \d+ tokens, USD 0\.\d+$/),
      expect.stringMatching(/^ {2}gpt-4o-mini: 1 request, \d+ tokens, USD 0\.\d+$/),
      expect.stringMatching(/^ {2}USD 0\.4\d+ of the budget of USD 0\.50 remains$/),
      "",
    ]);
    const report: SessionReport = await at.json("report", "--by", "tag:session,tag:feature");
    expect(report.rows).toMatchObject([{ "tag:session": id, "tag:feature": "search", requests: 2 }]);
    expect(ended.stderr).toContain(`USD ${report.rows[0]?.cost_usd}`);
    expect(await at.json("audit")).toMatchObject({
      entries: [{ action: "sessions.create", object: `session:${id}` }, { action: "keys.create" }],
    });
    expect(await at.json("verify")).toMatchObject({ differences: [] });
  });

  it("gives Anthropic's clients the address without /v1 and the session's credential as the only one", async () => {
    await using at = await setUp();
    const command = node(`
      const { OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL, ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY } = process.env;
      console.log(ANTHROPIC_BASE_URL + "/v1" === OPENAI_BASE_URL, ANTHROPIC_AUTH_TOKEN === OPENAI_API_KEY, ANTHROPIC_API_KEY);
    `);
    const anthropic = { ANTHROPIC_API_KEY: "sk-ant-of-the-user", ANTHROPIC_BASE_URL: "https://api.example" };
    expect(await runFarebox(["run", "--", ...command], { env: { ...at.env, ...anthropic } })).toMatchObject({
      code: 0,
      stdout: "true true undefined\n",
    });
  });

  it("gives Codex its provider in arguments, before those of the user", async () => {
    await using at = await setUp();
    const program = join(at.folder, "codex");
    await writeFile(program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n", { mode: 0o755 });
    const { code, stdout, stderr } = await at.farebox("run", "--", program, "exec", "-c", 'model_provider="mine"');
    expect([code, stdout.replace(/127\.0\.0\.1:\d+/, "HOST").split("\n")]).toEqual([
      0,
      [
        "-c",
        'model_provider="farebox"',
        "-c",
        'model_providers.farebox.name="Farebox"',
        "-c",
        'model_providers.farebox.base_url="http://HOST/v1"',
        "-c",
        'model_providers.farebox.env_key="OPENAI_API_KEY"',
        "-c",
        'model_providers.farebox.wire_api="responses"',
        "exec",
        "-c",
        'model_provider="mine"',
        "",
      ],
    ]);
    expect(stdout).not.toContain("sk-fb-");
    expect(stderr).toMatch(session);
  });

  it("prints the cost of each sub-agent, and of the tries whose stream was cut", async () => {
    await using at = await setUp();
    const ended = await at.farebox(
      "run",
      "--log-level",
      "error",
      "--",
      ...node(`
        const send = async (agent, parent, content = "hello") => {
          const answer = await fetch(process.env.ANTHROPIC_BASE_URL + "/v1/chat/completions", {
            method: "POST",
            headers: {
              "content-type": "application/json",
              authorization: "Bearer " + process.env.ANTHROPIC_AUTH_TOKEN,
              "x-claude-code-session-id": "s1",
              ...(agent && { "x-claude-code-agent-id": agent }),
              ...(parent && { "x-claude-code-parent-agent-id": parent }),
            },
            body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content }], max_tokens: 20, stream: true }),
          });
          await answer.text().catch(() => undefined);
        };
        await send();
        await send("a1", "s1", "hello #sandbox cut:3");
        await send("a1", "s1");
        await send("a2", "a1");
      `),
    );
    expect(ended.code).toBe(0);
    expect(ended.stderr.split("\n")).toEqual([
      expect.stringMatching(
        /^farebox: session run_\w+ of alice: 4 requests, \d+ tokens, USD 0\.\d+ \(USD 0\.\d+ of it/,
      ),
      "  model: gpt-4o",
      expect.stringMatching(/^ {2}main agent: 1 request, \d+ tokens, USD 0\.\d+$/),
      expect.stringMatching(/^ {4}agent a1: 2 requests, \d+ tokens, USD 0\.\d+$/),
      expect.stringMatching(/^ {6}agent a2: 1 request, \d+ tokens, USD 0\.\d+$/),
      expect.stringMatching(/^ {2}1 request whose stream was cut, for USD 0\.\d+; agents send such requests again$/),
      "",
    ]);
  });

  it("reaches Farebox directly, as does its command, if a proxy of the network is set", async () => {
    await using at = await setUp();
    await using serve = await startServe({ database: at.database, gateway: at.sandbox });
    const { port } = new URL(serve.url);
    // Node itself then uses the proxy, which does not exist.
    const network = { HTTP_PROXY: "http://127.0.0.1:1", NO_PROXY: ".corp.example", NODE_USE_ENV_PROXY: "1" };
    const command = ["--", ...node(`${chat()} console.log(answer.status, process.env.NO_PROXY, process.env.no_proxy)`)];
    for (const env of [{ FAREBOX_KEY: at.key }, { FAREBOX_DATABASE: at.database }])
      expect(await runFarebox(["run", ...command], { env: { ...env, ...network, FAREBOX_PORT: port } })).toMatchObject({
        code: 0,
        stdout: "200 .corp.example,127.0.0.1 .corp.example,127.0.0.1\n",
      });
  });

  it("uses a running proxy, with access to the ledger or only with a key", async () => {
    await using at = await setUp();
    await using serve = await startServe({ database: at.database, gateway: at.sandbox });
    const { port } = new URL(serve.url);
    await at.farebox("keys", "create", "bob");
    const command = ["--", ...node(`${chat()} console.log(answer.status, process.env.OPENAI_BASE_URL)`)];
    const byLedger = await at.farebox("run", "--key", "alice", "--port", port, ...command);
    expect(byLedger).toMatchObject({ code: 0, stdout: `200 ${serve.url}/v1\n` });
    const id = session.exec(byLedger.stderr)?.[1] ?? "";
    expect(byLedger.stderr).toContain("1 request, ");

    const elsewhere = { FAREBOX_PORT: port, FAREBOX_DATABASE: join(at.folder, "none.db"), FAREBOX_KEY: at.key };
    const byKey = await runFarebox(["run", ...command], { env: elsewhere });
    expect(byKey).toMatchObject({ code: 0, stdout: `200 ${serve.url}/v1\n` });
    expect(byKey.stderr).toMatch(session);
    expect(byKey.stderr).not.toContain(id);

    const undecided = await at.farebox("run", "--port", port, ...command);
    expect(undecided).toMatchObject({ code: 2, stdout: "" });
    expect(undecided.stderr).toContain("there are 2 valid keys (");
    const unknown = await at.farebox("run", "--key", "carol", "--port", port, ...command);
    expect(unknown).toMatchObject({ code: 2, stderr: 'farebox: there is no key named "carol"\n' });
    const wrong = await runFarebox(["run", ...command], { env: { ...elsewhere, FAREBOX_KEY: `${at.key}x` } });
    expect(wrong).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("This API key is unknown.") });
    expect(wrong.stderr).not.toContain(at.key);
  });

  it("works with a proxy that has workers, and refuses a proxy of another ledger", async () => {
    await using at = await setUp();
    await using other = await setUp();
    await using serve = await startServe({ database: at.database, gateway: at.sandbox, env: { FAREBOX_WORKERS: "2" } });
    const { port } = new URL(serve.url);
    const many = node(`${chat()}
      const statuses = await Promise.all(Array.from({ length: 20 }, async () => {
        const each = await ask({}); await each.text(); return each.status;
      }));
      console.log(answer.status, statuses.filter((status) => status === 200).length);
    `);
    const ended = await at.farebox("run", "--port", port, "--", ...many);
    expect(ended).toMatchObject({ code: 0, stdout: "200 20\n" });
    expect(ended.stderr).toContain("alice: 21 requests, ");
    const refused = await other.farebox("run", "--port", port, "--", ...many);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain("that farebox may use another ledger than ");
  });

  it("ends with the command's exit code, and reports a command that was not found", async () => {
    await using at = await setUp();
    expect(await at.farebox("run", ...node("process.exit(42)"))).toMatchObject({ code: 42 });
    const missing = await at.farebox("run", "--", "no-such-command-of-farebox");
    expect(missing).toMatchObject({ code: 127, stderr: expect.stringContaining("was not found") });
    expect(await at.farebox("run", "--", at.folder)).toMatchObject({ code: 126 });
    expect(await at.farebox("run", "--", "")).toMatchObject({ code: 126 });
    const none = await at.farebox("run");
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining("missing required argument 'command'") });
    expect(await at.farebox("run", ...node("process.kill(process.pid, 'SIGKILL')"))).toMatchObject({ code: 137 });
  });

  it("forwards signals, and waits for a command that ignores them", async () => {
    await using at = await setUp();
    const stubborn = node(`
      let count = 0;
      for (const name of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(name, () => {
        console.log("got " + name);
        if (++count === 3) process.exit(9);
      });
      setInterval(() => undefined, 1000);
      console.log("waiting");
    `);
    await using run = startFarebox(["run", "--", ...stubborn], { env: at.env });
    await run.printed(/^waiting$/m);
    for (const name of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
      run.signal(name);
      await run.printed(new RegExp(`^got ${name}$`, "m"));
    }
    expect(await run.ended).toMatchObject({ code: 9, stderr: expect.stringMatching(session) });

    await using plain = startFarebox(["run", "--", ...node("console.log('waiting'); setInterval(() => {}, 1000)")], {
      env: at.env,
    });
    await plain.printed(/^waiting$/m);
    plain.signal("SIGTERM");
    expect(await plain.ended).toMatchObject({ code: 143, stderr: expect.stringMatching(session) });
  });

  it("keeps its budget under parallel requests, and ends its session afterwards", async () => {
    await using at = await setUp();
    await using serve = await startServe({ database: at.database, gateway: at.sandbox });
    const { port } = new URL(serve.url);
    const ended: Ended = await at.farebox(
      "run",
      "--port",
      port,
      "--budget",
      "0.005",
      "--",
      ...node(`${chat("{ max_tokens: 100 }")}
        const statuses = await Promise.all(Array.from({ length: 100 }, async () => {
          const each = await ask({ max_tokens: 100 }); await each.text(); return each.status;
        }));
        const refused = statuses.filter((status) => status === 402 || status === 429).length;
        const passed = statuses.filter((status) => status === 200).length;
        console.log(refused + passed, refused > 0, process.env.OPENAI_API_KEY);
      `),
    );
    expect(ended.code).toBe(0);
    const [, credential = ""] = /^100 true (sk-fb-run_\S+)$/m.exec(ended.stdout) ?? [];
    const report: SessionReport = await at.json("report", "--by", "tag:session");
    expect(Number(report.rows[0]?.cost_usd)).toBeLessThanOrEqual(0.005);
    // `farebox run` ends its session in the ledger; the proxy sees that within a second.
    const late = () => fetch(`${serve.url}/v1/models`, { headers: { authorization: `Bearer ${credential}` } });
    await until(async () => (await late()).status === 401, "the credential of the session is refused");
    expect(await at.json("budgets", "list")).toMatchObject({ budgets: [{ limit_usd: "0.005", held_usd: "0.00" }] });
    expect(await at.json("verify")).toMatchObject({ differences: [] });
  });

  it("when the proxy dies, reports the cost from the ledger, or without a ledger that the session was not ended", async () => {
    await using at = await setUp();
    await using serve = await startServe({ database: at.database, gateway: at.sandbox });
    const { port } = new URL(serve.url);
    const waiting = node(`${chat()} console.log("asked"); process.stdin.on("data", () => {});
      process.on("SIGTERM", () => process.exit(3)); setInterval(() => {}, 1000);`);
    await using byLedger = startFarebox(["run", "--port", port, "--", ...waiting], { env: at.env });
    const env = { FAREBOX_PORT: port, FAREBOX_DATABASE: join(at.folder, "none.db"), FAREBOX_KEY: at.key };
    await using byKey = startFarebox(["run", "--", ...waiting], { env });
    await byLedger.printed(/^asked$/m);
    await byKey.printed(/^asked$/m);
    // The client receives its answer before the ledger has the charge.
    await until(() => postedIn(at.database) === 2, "both charges are posted");
    serve.signal("SIGKILL");
    await serve.ended;
    byLedger.signal("SIGTERM");
    byKey.signal("SIGTERM");
    expect(await byLedger.ended).toMatchObject({ code: 3, stderr: expect.stringContaining("of alice: 1 request, ") });
    const ended = await byKey.ended;
    expect(ended).toMatchObject({ code: 3 });
    expect(ended.stderr).toMatch(/the session run_\w+ could not be ended and expires at 20\S+Z: /);
  });

  it("reports missing settings, wrong options, and a port of another program", async () => {
    await using at = await setUp();
    const command = ["--", ...node("0")];
    const { FAREBOX_GATEWAY_URL: _url, ...withoutGateway } = at.env;
    expect(await runFarebox(["run", ...command], { env: withoutGateway })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("FAREBOX_GATEWAY_URL and FAREBOX_GATEWAY_API_KEY are needed to start one"),
    });
    for (const [args, words] of [
      [["--budget", "lots"], "--budget must be an amount in USD"],
      [["--tag", "session=mine"], "--tag must have at most 7 names"],
      [["--tag", "a"], "It must be a name and a value such as feature=search."],
      [["--tag", "a=1", "--tag", "a=2"], "The tag a is given twice."],
    ] as const) {
      const ended = await at.farebox("run", ...args, ...command);
      expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining(words) });
    }
    const stranger = createServer((_request, response) => response.end("hello"));
    await new Promise<void>((resolve) => stranger.listen(0, "127.0.0.1", resolve));
    const { port } = stranger.address() as AddressInfo;
    const ended = await at.farebox("run", "--port", String(port), ...command);
    stranger.close();
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining("is not farebox") });
  });
});

describe.skipIf(skipWithout("python3"))("farebox run in a terminal", () => {
  it("leaves Ctrl-C to the command, which receives it once, and prints the cost", async () => {
    await using at = await setUp();
    const counting = node(`${chat()}
      let interrupts = 0;
      process.on("SIGINT", () => console.log("interrupts: " + ++interrupts));
      process.on("SIGTERM", () => { console.log("in all: " + interrupts); process.exit(7); });
      setInterval(() => undefined, 1000);
      console.log("below " + process.ppid);
    `);
    await using run = startInTerminal(["run", "--", ...counting], { env: at.env });
    const [, farebox = ""] = await run.printed(/below (\d+)/);
    run.type("\x03");
    await run.printed(/interrupts: 1/);
    // Signals from elsewhere are forwarded. A forwarded interrupt would have arrived before this one.
    process.kill(Number(farebox), "SIGTERM");
    await run.printed(/in all: 1/);
    const ended = await run.ended;
    expect(ended).toMatchObject({
      code: 7,
      stdout: expect.stringMatching(/of alice: 1 request, \d+ tokens, USD 0\.\d+/),
    });
  });

  it("ends with 130 when Ctrl-C ends the command during a stream, which is charged", async () => {
    await using at = await setUp();
    const streaming = node(
      `${chat('{ stream: true, messages: [{ role: "user", content: "#sandbox endless:5" }] }').replace(
        "await answer.text();",
        "for await (const chunk of answer.body) console.log('a chunk');",
      )}`,
    );
    await using run = startInTerminal(["run", "--", ...streaming], { env: at.env });
    await run.printed(/a chunk/);
    run.type("\x03");
    const ended = await run.ended;
    expect(ended).toMatchObject({
      code: 130,
      stdout: expect.stringMatching(
        /of alice: 1 request, \d+ tokens, USD 0\.\d+ \(USD 0\.\d+ of it estimated, in 1 request\)/,
      ),
    });
    expect(await at.json("charges")).toMatchObject({ charges: [{ state: "posted", source: "partial" }] });
  });
});
