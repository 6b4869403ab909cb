import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { parse } from "yaml";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { machineNow } from "../../support/daytime.ts";

let sandbox: Sandbox;
let h: Harness;
let file: string;
beforeAll(async () => void (sandbox = await startSandbox()));
afterAll(() => sandbox[Symbol.asyncDispose]());
beforeEach(() => {
  h = harness();
  h.clock.set(machineNow());
  file = join(h.folder, "farebox.yaml");
  h.env = { FAREBOX_CONFIG: file };
});
afterEach(() => h[Symbol.dispose]());

const flags = () => ["--gateway-url", `${sandbox.url}/v1`, "--database", h.database, "--port", "0"];

/** Answers the questions in order with these texts; false is Ctrl-C. Returns the questions. */
function typeAnswers(...texts: (string | false)[]) {
  const questions: string[] = [];
  h.typed = (question) => {
    questions.push(question);
    return texts.shift() ?? false;
  };
  return questions;
}

it("init sets up a proxy from flags and the environment", async () => {
  h.env["FAREBOX_GATEWAY_API_KEY"] = sandbox.apiKey;
  const made = await h.json<{
    file: string;
    base_url: string;
    key: { name: string; key: string };
    admin: { name: string; role: string; token: string };
  }>("init", ...flags(), "--preset", "official", "--key", "alice", "--budget", "2.50", "--admin", "carol");
  expect(made).toMatchObject({
    file,
    key: { name: "alice", key: expect.stringMatching(/^sk-fb-/) },
    admin: { name: "carol", role: "editor", token: expect.stringMatching(/^sk-fba-/) },
    budget: { scope: "key:alice", limit_usd: "2.50", period: "1d" },
  });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(parse(readFileSync(file, "utf8"))).toEqual({
    gateway_url: `${sandbox.url}/v1`,
    gateway_api_key: sandbox.apiKey,
    port: "0",
    database: h.database,
    preset: "official",
  });
  // Later commands need only this file.
  h.env = { FAREBOX_CONFIG: file };
  const { budgets } = await h.json<{ budgets: object[] }>("keys", "show", "alice");
  expect(budgets).toMatchObject([{ scope: "key:alice", period: "1d", mode: "hard", limit_usd: "2.50" }]);
  expect(await h.json("admins", "list")).toMatchObject({ admins: [{ name: "carol", role: "editor", state: "live" }] });
  expect((await h.run("doctor")).code).toBe(0);
});

it("init references the file of the gateway key instead of copying the key, and names the first key after the user", async () => {
  const secret = join(h.folder, "gateway.key");
  writeFileSync(secret, sandbox.apiKey, { mode: 0o600 });
  h.env["FAREBOX_GATEWAY_API_KEY_FILE"] = secret;
  const { code, stdout, stderr } = await h.run("init", ...flags());
  expect({ code, stderr }).toEqual({ code: 0, stderr: `created the ledger at ${h.database}\n` });
  expect(stdout).toContain("ok\tgateway key\tthe gateway accepts it\n");
  expect(stdout).toMatch(/\nready\n$/);
  expect(stdout).toContain("The key tester may spend 5 USD in a day.");
  expect(stdout).toMatch(/\n {2}export OPENAI_API_KEY=sk-fb-\S+\n/);
  expect(stdout + readFileSync(file, "utf8")).not.toContain(sandbox.apiKey);
  expect(parse(readFileSync(file, "utf8"))).toMatchObject({ gateway_api_key_file: secret });
});

it("init asks on a terminal for missing values, and repeats questions until the gateway accepts the key", async () => {
  const questions = typeAnswers(
    "gateway.example",
    "x",
    sandbox.url,
    "wrong",
    "",
    sandbox.apiKey,
    "Alice",
    "",
    "$3",
    "3",
  );
  const { code, stdout, stderr } = await h.run("init", "--database", h.database, "--port", "0");
  expect(code).toBe(0);
  expect(questions).toEqual([
    "Address of the gateway: ",
    "Key of the gateway (not shown): ",
    "Address of the gateway [gateway.example]: ",
    "Key of the gateway (not shown): ",
    `Address of the gateway [${sandbox.url}]: `,
    "Key of the gateway (not shown): ",
    "Name of the first key [tester]: ",
    "Name of the first key [tester]: ",
    "Daily budget of tester in USD [5]: ",
    "Daily budget of tester in USD [5]: ",
  ]);
  expect(stderr)
    .toBe(`farebox: FAREBOX_GATEWAY_URL must be an address such as https://gateway.example, not "gateway.example"
farebox: gateway key: the gateway refuses the key of this proxy (401); check FAREBOX_GATEWAY_API_KEY
farebox: name must be 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter or a digit, not "Alice"
farebox: limit must be an amount in USD such as 5 or 2.50, below 9 million, not "$3"
created the ledger at ${h.database}
`);
  expect(stdout).toContain("The key tester may spend 3 USD in a day.");
  expect(stdout).not.toContain(sandbox.apiKey);
});

it("init lists the flags and variables that a script must set", async () => {
  expect(await h.run("init")).toEqual({
    code: 2,
    stdout: "",
    stderr: `farebox: FAREBOX_GATEWAY_URL is not set; give --gateway-url, or run init on a terminal, which asks for it
farebox: FAREBOX_GATEWAY_API_KEY is not set; export it, or name its file in FAREBOX_GATEWAY_API_KEY_FILE, or run init on a terminal, which asks for it
`,
  });
  expect(readdirSync(h.folder)).toEqual([]);
});

it.each([1, 2, 3, 4])("init writes nothing if question %i is answered with Ctrl-C", async (question) => {
  const questions = typeAnswers(...[sandbox.url, sandbox.apiKey, "alice"].slice(0, question - 1), false);
  expect(await h.run("init", "--database", h.database)).toEqual({
    code: 1,
    stdout: "",
    stderr: "farebox: cancelled; nothing was written\n",
  });
  expect(questions).toHaveLength(question);
  expect(readdirSync(h.folder)).toEqual([]);
});

it.each<[string, RequestListener, string]>([
  [
    "refuses the key",
    (_request, response) => void response.writeHead(401).end(),
    "refuses the key of this proxy (401)",
  ],
  [
    "is a web page",
    (_request, response) => void response.setHeader("content-type", "text/html").end("<html>Welcome</html>"),
    "the answer is not an account record; check that FAREBOX_GATEWAY_URL is the address of the gateway's API",
  ],
  [
    "answers 404 on every path",
    (_request, response) => void response.writeHead(404).end("{}"),
    "neither an account record nor a list of models",
  ],
  [
    "redirects",
    (_request, response) => void response.writeHead(302, { location: "/login" }).end(),
    "set FAREBOX_GATEWAY_URL to the address that the gateway redirects to",
  ],
])("init writes nothing if the gateway %s", async (_name, listener, message) => {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  h.env["FAREBOX_GATEWAY_API_KEY"] = "wrong";
  const { port } = server.address() as AddressInfo;
  const ran = await h.run("init", "--gateway-url", `http://127.0.0.1:${port}`, "--database", h.database);
  server.close();
  expect(ran).toEqual({ code: 1, stdout: "", stderr: expect.stringContaining(message) });
  expect(ran.stderr).toMatch(/\nfarebox: nothing was written\n$/);
  expect(readdirSync(h.folder)).toEqual([]);
});

it("init changes nothing if it runs a second time", async () => {
  h.env["FAREBOX_GATEWAY_API_KEY"] = sandbox.apiKey;
  await h.json("init", ...flags());
  const before = [readFileSync(file), readFileSync(h.database)];
  expect(await h.run("init", ...flags(), "--key", "other")).toEqual({
    code: 2,
    stdout: "",
    stderr: `farebox: ${file} already exists; farebox doctor checks it. To start again, move it away first\n`,
  });
  expect([readFileSync(file), readFileSync(h.database)]).toEqual(before);
});

it("init uses an existing ledger, but refuses a name that is taken in it", async () => {
  h.env = { FAREBOX_DATABASE: h.database };
  await h.run("keys", "create", "tester");
  h.env = { FAREBOX_CONFIG: file, FAREBOX_GATEWAY_API_KEY: sandbox.apiKey };
  const { code, stderr } = await h.run("init", ...flags());
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: "farebox: the ledger already has a key named tester; choose another name with --key\n",
  });
  expect(readdirSync(h.folder)).not.toContain("farebox.yaml");
  await h.json("init", ...flags(), "--key", "alice");
  h.env = { FAREBOX_CONFIG: file };
  const { keys } = await h.json<{ keys: { name: string }[] }>("keys", "list");
  expect(keys.map(({ name }) => name)).toEqual(["tester", "alice"]);
});

it("init leaves no file if the ledger cannot be created", async () => {
  h.env["FAREBOX_GATEWAY_API_KEY"] = sandbox.apiKey;
  const { code, stderr } = await h.run("init", ...flags(), "--database", join(h.folder, "nowhere", "ledger.db"));
  expect(code).toBe(2);
  expect(stderr).toContain(`the folder ${join(h.folder, "nowhere")} does not exist`);
  expect(readdirSync(h.folder)).toEqual([]);
});

it("init creates no ledger if the file cannot be written", async () => {
  h.env = { FAREBOX_CONFIG: join(h.folder, "nowhere", "farebox.yaml"), FAREBOX_GATEWAY_API_KEY: sandbox.apiKey };
  const { code, stderr } = await h.run("init", ...flags());
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining(`${h.env["FAREBOX_CONFIG"]} cannot be written: ENOENT`),
  });
  expect(readdirSync(h.folder)).toEqual([]);
});

it.each([
  [["--key", "A b"], "name must be 1 to 63 of a-z"],
  [["--key", ""], "name must be 1 to 63 of a-z"],
  [["--budget", "five"], "limit must be an amount in USD"],
  [["--budget", ""], "limit must be an amount in USD"],
  [["--admin", "env"], "name must not be env or farebox"],
  [["--port", "70000"], "--port must be a whole number from 0 to 65535"],
])("init refuses %j", async (more, message) => {
  h.env["FAREBOX_GATEWAY_API_KEY"] = sandbox.apiKey;
  const { code, stderr } = await h.run("init", ...flags(), ...more);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
  expect(readdirSync(h.folder)).toEqual([]);
});
