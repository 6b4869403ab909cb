import { readdir } from "node:fs/promises";
import { expect, it } from "vitest";
import { runFarebox, startFarebox, temporaryFolder } from "../../support/farebox-process.ts";

/** Settings that a machine may have; the demo must read none of them. */
const hostile = {
  FAREBOX_GATEWAY_URL: "http://203.0.113.1:1/",
  FAREBOX_GATEWAY_API_KEY: "sk-a-real-key",
  FAREBOX_GATEWAY_API_KEY_FILE: "/no/such/file",
  FAREBOX_DATABASE: "/no/such/folder/farebox.db",
  FAREBOX_PORT: "nonsense",
  FAREBOX_HOST: "203.0.113.1",
  FAREBOX_CONFIG: "/no/such/farebox.yaml",
  FAREBOX_PRICING: "/no/such/pricing",
  FAREBOX_UNPRICED: "perhaps",
  FAREBOX_TIME_ZONE: "Mars/Olympus",
  FAREBOX_LOG_LEVEL: "shouting",
  FAREBOX_NO_SUCH_SETTING: "1",
  OPENAI_API_KEY: "sk-a-real-key",
  OPENAI_ADMIN_KEY: "sk-another",
  OPENAI_BASE_URL: "http://203.0.113.1:1/v1",
  OPENAI_ORG_ID: "org-real",
  OPENAI_PROJECT_ID: "proj-real",
  OPENAI_LOG: "debug",
  OPENAI_CUSTOM_HEADERS: "authorization: Bearer sk-a-real-key",
  HTTP_PROXY: "http://203.0.113.1:1",
  HTTPS_PROXY: "http://203.0.113.1:1",
};

it("demo --once prints the figures, ignores the environment's settings and leaves no file", async () => {
  await using folder = await temporaryFolder();
  const { code, stdout, stderr } = await runFarebox(["demo", "--once"], {
    env: { ...hostile, TMPDIR: folder.path },
    cwd: folder.path,
    fromSources: true,
  });
  expect({ code, stderr: stderr.replace(/^USD, .*$|^of it counted.*$/gm, "").trim() }).toEqual({
    code: 0,
    stderr: "",
  });
  expect(stdout).toMatch(/^gpt-4o, plain +\d+ words, cost header 0\.\d+ USD +reported +0\.\d+ +0\.\d+$/m);
  expect(stdout).toMatch(/^gpt-4\.1, stream without usage +\d+ chunks +reported +0\.\d+ +0\.\d+$/m);
  expect(stdout).toMatch(/^gpt-4o, with the intern's key +402 budget_exceeded/m);
  expect(stdout).toMatch(/^intern +gpt-4o +0 +1 /m);
  expect(stdout).toMatch(/^total +5 +1 /m);
  // The proxy has ended, so the output must not link to it.
  expect(stdout).not.toMatch(/#sign-in=|OPENAI_BASE_URL/);
  expect(stdout).toMatch(/^ {2}\S.* demo {3}\(keeps running, with the dashboard\)$/m);
  const billed = /the gateway billed +(\S+) USD/.exec(stdout)?.[1];
  expect(Number(billed)).toBeGreaterThan(0);
  expect(/the ledger says +(\S+) USD/.exec(stdout)?.[1]).toBe(billed);
  expect(stdout).toContain("5 charges, 0 differences");
  expect(stdout + stderr).not.toContain("real-key");
  expect(await readdir(folder.path)).toEqual([]);
});

it("demo runs until Ctrl-C, serves requests, and then removes its folder", async () => {
  await using folder = await temporaryFolder();
  await using demo = startFarebox(["demo"], { env: { ...hostile, TMPDIR: folder.path }, cwd: folder.path });
  await demo.printed(/Runs until Ctrl-C/);
  const [, url = ""] = await demo.printed(/farebox +(http:\S+)/);
  const [, key = ""] = await demo.printed(/demo +1\.00 USD a day +(sk-fb-\S+)/);
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Hello." }], max_tokens: 10 }),
  });
  expect(response.status).toBe(200);
  await response.text();
  const [, token = ""] = await demo.printed(/\/dashboard {3}\(sign in with (\S+)\)/);
  const signedIn = await fetch(`${url}/dashboard/session`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: url, "x-farebox-dashboard": "1" },
    body: JSON.stringify({ token }),
  });
  expect(await signedIn.json()).toMatchObject({ kind: "admin", role: "editor" });
  const [, code = ""] = await demo.printed(/\/dashboard#sign-in=(\S+)$/m);
  const once = () =>
    fetch(`${url}/dashboard/session`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: url, "x-farebox-dashboard": "1" },
      body: JSON.stringify({ token: code }),
    });
  expect([(await once()).status, (await once()).status]).toEqual([200, 401]);
  expect(await readdir(folder.path)).toHaveLength(1);
  demo.signal("SIGINT");
  expect(await demo.ended).toMatchObject({ code: 0, signal: null });
  expect(await readdir(folder.path)).toEqual([]);
});

it("demo removes its folder when it is interrupted before it is ready", async () => {
  await using folder = await temporaryFolder();
  await using demo = startFarebox(["demo"], { env: { TMPDIR: folder.path }, cwd: folder.path });
  await demo.printed(/sandbox gateway/);
  demo.signal("SIGINT");
  expect(await demo.ended).toMatchObject({ code: 0, signal: null });
  expect(await readdir(folder.path)).toEqual([]);
});
