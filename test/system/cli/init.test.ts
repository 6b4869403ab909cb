import { readdirSync, readFileSync } from "node:fs";
import { watch } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import {
  runFarebox,
  fareboxCommand,
  startFarebox,
  startProgram,
  startInTerminal,
  temporaryFolder,
} from "../../support/farebox-process.ts";
import { skipWithout } from "../../support/programs.ts";

describe.skipIf(skipWithout("python3"))("init on a real terminal", () => {
  it("sets up a proxy that answers, and does not show the gateway key", async () => {
    await using sandbox = await startSandbox();
    await using folder = await temporaryFolder();
    await using farebox = startInTerminal(["init"], { cwd: folder.path, env: { FAREBOX_PORT: "0" } });
    await farebox.printed(/Address of the gateway: /);
    farebox.type(`${sandbox.url}\r`);
    await farebox.printed(/Key of the gateway \(not shown\): /);
    farebox.type(`${sandbox.apiKey}\r`);
    await farebox.printed(/Name of the first key \[/);
    farebox.type("alice\r");
    await farebox.printed(/Daily budget of alice in USD \[5\]: /);
    farebox.type("\r");
    expect(await farebox.ended).toMatchObject({ code: 0 });
    expect(farebox.stdout).toMatch(/\nready\r\n$/);
    expect(farebox.stdout).not.toContain(sandbox.apiKey);
    const [, key = ""] = /OPENAI_API_KEY=(sk-fb-\S+)/.exec(farebox.stdout) ?? [];

    await using serve = startFarebox(["serve"], { cwd: folder.path, env: { FAREBOX_DRAIN: "0s" } });
    const [, url] = await serve.printed(/^farebox listening on (http:\S+)$/m);
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Say hello." }] }),
    });
    expect(answer.status).toBe(200);
    expect(answer.headers.has("x-farebox-budget-remaining-usd")).toBe(true);
    await answer.text();
    const [, token = ""] = /(sk-fba-\S+)/.exec(farebox.stdout) ?? [];
    const admin = await fetch(`${url}/admin/v1/keys`, { headers: { authorization: `Bearer ${token}` } });
    expect(await admin.json()).toMatchObject({ keys: [{ name: "alice" }] });
  });

  it("writes nothing and does not show the gateway key if Ctrl-C is pressed while it is typed", async () => {
    await using folder = await temporaryFolder();
    await using farebox = startInTerminal(["init", "--gateway-url", "https://gateway.example"], { cwd: folder.path });
    await farebox.printed(/Key of the gateway \(not shown\): /);
    farebox.type("half-a-key\x03");
    const { code, stdout } = await farebox.ended;
    expect(code).toBe(1);
    expect(stdout).toContain("cancelled; nothing was written");
    expect(stdout).not.toContain("half");
    expect(readdirSync(folder.path)).toEqual([]);
  });
});

describe("a signal during init", () => {
  it("leaves no file while the gateway is checked", async () => {
    await using folder = await temporaryFolder();
    const requested = Promise.withResolvers<void>();
    const gateway = createServer(() => requested.resolve());
    await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
    const { port } = gateway.address() as AddressInfo;
    await using farebox = startFarebox(["init", "--gateway-url", `http://127.0.0.1:${port}`], {
      cwd: folder.path,
      env: { FAREBOX_GATEWAY_API_KEY: "pk" },
    });
    await requested.promise;
    farebox.signal("SIGINT");
    expect(await farebox.ended).toMatchObject({ stdout: "" });
    gateway.closeAllConnections();
    gateway.close();
    expect(readdirSync(folder.path)).toEqual([]);
  });

  it.each(["farebox.yaml", "farebox.db"])("does not interrupt it once %s is created", async (name) => {
    await using sandbox = await startSandbox();
    await using folder = await temporaryFolder();
    const created = (async () => {
      for await (const { filename } of watch(folder.path)) if (filename === name) return;
    })();
    await using farebox = startFarebox(["init", "--gateway-url", sandbox.url, "--key", "alice"], {
      cwd: folder.path,
      env: { FAREBOX_GATEWAY_API_KEY: sandbox.apiKey, FAREBOX_PORT: "0" },
    });
    await created;
    farebox.signal("SIGINT");
    expect((await farebox.ended).stdout).toMatch(/OPENAI_API_KEY=sk-fb-[^]*sk-fba-/);
    expect(readFileSync(join(folder.path, "farebox.yaml"), "utf8")).toContain(sandbox.apiKey);
    const listed = await runFarebox(["budgets", "list", "--json"], { cwd: folder.path });
    expect(JSON.parse(listed.stdout)).toMatchObject({ budgets: [{ scope: "key:alice" }] });
    const { stdout } = await runFarebox(["admins", "list", "--json"], { cwd: folder.path });
    expect(JSON.parse(stdout)).toMatchObject({ admins: [{ role: "editor" }] });
  });
});

it("init leaves no file if farebox.yaml cannot be written completely", async () => {
  await using sandbox = await startSandbox();
  await using folder = await temporaryFolder();
  // Every write to a file fails, as on a full disk.
  const limited = [
    "sh",
    "-c",
    'ulimit -f 0; exec "$@"',
    "sh",
    ...fareboxCommand(["init", "--gateway-url", sandbox.url]),
  ];
  await using farebox = startProgram(limited, {
    cwd: folder.path,
    env: { FAREBOX_GATEWAY_API_KEY: sandbox.apiKey },
  });
  const { code, stderr } = await farebox.ended;
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining("farebox.yaml cannot be written: EFBIG"),
  });
  expect(readdirSync(folder.path)).toEqual([]);
});
