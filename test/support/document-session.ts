import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter, dirname, join } from "node:path";
import { startSandbox } from "../../src/sandbox/server.ts";
import { blocksByPage, ruleOf } from "./document-blocks.ts";
import { chargeId, ledgerFor, timeZone, type DocumentLedger } from "./document-ledger.ts";
import { checkout, documents } from "./documents.ts";
import { cleanEnvironment, fareboxCommand, programCache, startProgram, temporaryFolder } from "./farebox-process.ts";
import { nodeFlags } from "./node-flags.ts";

/** Commands that a reader runs one after the other. */
interface Session {
  /** "docs/backup.md", or "docs/cli.md: farebox serve" for a section that stands alone. */
  readonly name: string;
  readonly parts: readonly Part[];
}

interface Part {
  /** "docs/backup.md:7" */
  readonly place: string;
  readonly commands: string;
  /** Output that the page shows. */
  readonly shown: readonly string[];
}

/** Reference pages, whose sections stand alone. */
const references = new Set(["docs/cli.md"]);

/** Returns a session for each page with commands, and for each such section of a reference. */
export function documentSessions(): readonly Session[] {
  return [...blocksByPage].flatMap(([page, blocks]) => {
    const parts = blocks.flatMap(({ place, code, ...block }) => {
      const rule = ruleOf({ code, ...block });
      if (rule === "commands") return [{ place, commands: code, shown: [] }];
      if (rule !== "transcript") return [];
      const [command = "", ...shown] = code.trimEnd().split("\n");
      return [{ place, commands: `${command.slice(2)}\n`, shown }];
    });
    if (parts.length === 0) return [];
    if (!references.has(page)) return [{ name: page, parts }];
    const lines = (documents.get(page) ?? "").split("\n");
    const heading = ({ place }: Part) =>
      lines.slice(0, Number(place.split(":")[1])).findLast((line) => line.startsWith("## "));
    return [...Map.groupBy(parts, heading)].map(([section, ofSection]) => ({
      name: section === undefined ? page : `${page}: ${section.slice(3)}`,
      parts: ofSection,
    }));
  });
}

/** Programs that blocks may run. */
const permitted = ["chmod", "curl", "jq", "openssl"];

/** Programs that blocks name and that do not run, with the reason. Stand-ins do nothing. Another rule is in document-session.sh. */
const standIns: Readonly<Record<string, string>> = {
  aider: "npm run test:clients runs it",
  claude: "npm run test:clients runs it",
  codex: "npm run test:clients runs it",
  createdb: "needs PostgreSQL",
  docker: "downloads images",
  git: "downloads a repository",
  journalctl: "reads the machine's log",
  llm: "npm run test:clients runs it",
  npx: "runs other tests; test/unit/docs/commands.test.ts finds their files",
  python: "runs a program of the reader",
  sudo: "changes the machine",
};

/** Answers of the internet, and files that pages name without creating them. */
const tables = {
  "data.json":
    '[{"id":"openai","models":[{"id":"gpt-5","match":{"equals":"gpt-5"},"context_window":400000,"prices":{"input_mtok":1.5,"output_mtok":12}}]}]',
  "model_prices_and_context_window.json":
    '{"gpt-5":{"litellm_provider":"openai","mode":"chat","max_input_tokens":272000,"max_output_tokens":128000,"input_cost_per_token":1.5e-06,"output_cost_per_token":1.3e-05}}',
};
const readerFiles: Readonly<Record<string, string>> = {
  ...tables,
  "request.json": JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Say hello." }] }),
  "company.yaml": readFileSync(`${checkout}docs/apply.example.yaml`, "utf8"),
  "my-prices/gateway.yaml": 'groups: { large-general: { fraction: "0.9" } }\n',
  "new-prices/gateway.yaml": 'groups: { large-general: { fraction: "0.6" } }\n',
  ".config/fish/completions/other.fish": "",
};

/** Gateway of all sessions, and a server that stands for the internet. */
export interface Surroundings extends AsyncDisposable {
  readonly gateway: { readonly url: string; readonly apiKey: string };
  /** "http://127.0.0.1:43210" */
  readonly internet: string;
  /** Port of the command server. */
  readonly commands: string;
}

export async function startSurroundings(): Promise<Surroundings> {
  await using owned = new AsyncDisposableStack();
  const gateway = owned.use(await startSandbox());
  const internet = createServer((request, response) => {
    const name = request.url?.split("/").at(-1) ?? "";
    response.end(tables[name as keyof typeof tables] ?? "");
  });
  owned.defer(() => void internet.close());
  await once(internet.listen(0, "127.0.0.1"), "listening");
  const program = new URL("command-server.ts", import.meta.url).pathname;
  const server = owned.use(startProgram([process.execPath, ...nodeFlags, program], {}));
  const [commands] = await server.printed(/^\d+$/m);
  const kept = owned.move();
  return {
    gateway,
    commands,
    internet: `http://127.0.0.1:${(internet.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Returns the commands with real values for what a reader fills in. */
function filled(commands: string, { key }: DocumentLedger, { gateway, internet }: Surroundings): string {
  return commands
    .replaceAll("sk-fb-…", key)
    .replace(/\bID\b/g, chargeId)
    .replaceAll("https://gateway.example", gateway.url)
    .replace(/https:\/\/(?!farebox\.example)[\w.-]+/g, internet);
}

const prelude = readFileSync(new URL("document-session.sh", import.meta.url), "utf8");

interface RanSession {
  /** Faults, each with the place of its block. */
  readonly faults: readonly string[];
  /** Output of the commands. */
  readonly output: string;
}

/** Runs a session in a new folder with the ledger that the page takes for granted. */
export async function runSession({ parts }: Session, surroundings: Surroundings): Promise<RanSession> {
  const outside = parts.filter((part) => /> *\/(?!dev\/null\b)/.test(part.commands));
  if (outside.length > 0)
    return { faults: outside.map(({ place }) => `${place}: writes outside of its folder`), output: "" };
  await using folder = await temporaryFolder();
  const home = folder.path;
  const at = (name: string) => join(home, name);
  const commands = parts.map((part) => part.commands).join("");
  const ledger = await ledgerFor(commands);
  prepare(at, commands, ledger, surroundings);
  const needsProxy = /127\.0\.0\.1:4000|farebox\.example/.test(commands) && !/\bfarebox (-- )?serve\b/.test(commands);
  const script = [
    prelude,
    ...(needsProxy ? ["farebox serve"] : []),
    ...parts.map(({ place, commands: text, shown }, index) => {
      const own = filled(text, ledger, surroundings);
      return `block=${place}\n${shown.length === 0 ? own : `{\n${own}} >.shown-${index} 2>&1\n`}`;
    }),
    "end_proxy",
    "exit 0",
  ].join("\n");
  const { code, output } = await runScript(script, home, {
    PATH: at("bin"),
    HOME: home,
    faults: at(".faults"),
    commands: surroundings.commands,
    FAREBOX_GATEWAY_URL: surroundings.gateway.url,
    FAREBOX_GATEWAY_API_KEY_FILE: at("gateway.key"),
    FAREBOX_PORT: "0",
    FAREBOX_DRAIN: "0s",
    FAREBOX_TIME_ZONE: timeZone,
    FAREBOX_KEY: ledger.key,
    KEY: ledger.refusedKey,
    OPENAI_API_KEY: ledger.key,
    OPENAI_BASE_URL: "http://127.0.0.1:4000/v1",
  });
  const found = readFileSync(at(".faults"), "utf8").split("\n").slice(0, -1);
  const ended = code === 0 ? [] : [`the script ended with exit code ${code}`];
  const missing = parts.flatMap((part, index) =>
    part.shown.length === 0 ? [] : missingLines(part, readFileSync(at(`.shown-${index}`), "utf8")),
  );
  return { faults: [...found, ...ended, ...missing], output };
}

/** Creates the files and programs of a session. */
function prepare(
  at: (name: string) => string,
  commands: string,
  { file }: DocumentLedger,
  { gateway }: Surroundings,
): void {
  const files = {
    ...readerFiles,
    "gateway.key": gateway.apiKey,
    "farebox.db": file,
    ...(commands.includes("db backup") ? {} : { "farebox-2026-11-20.db": file }),
    ".faults": "",
  };
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(at(name)), { recursive: true });
    writeFileSync(at(name), content, { mode: 0o600 });
  }
  mkdirSync(at("bin"));
  const program = (name: string, line: string) =>
    writeFileSync(at(`bin/${name}`), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
  for (const name of permitted) symlinkSync(pathOf(name), at(`bin/${name}`));
  for (const name of Object.keys(standIns)) program(name, "exit 0");
  program("farebox", `exec ${fareboxCommand([]).join(" ")} "$@"`);
}

/** Commands whose output depends only on the shipped price files. The output of others depends on the reader's ledger. */
const fixed = /^farebox prices show /;

/** Returns faults for the shown lines that a command did not print: all lines, or only the first one. */
function missingLines({ place, commands, shown }: Part, printed: string): readonly string[] {
  // A terminal gets aligned columns. A line number changes with any line above.
  const plain = (line: string) =>
    line
      .replaceAll(/\.yaml:\d+/g, ".yaml")
      .trim()
      .split(/\s+/)
      .join(" ");
  const lines = new Set(["…", ...printed.split("\n").map(plain)]);
  const expected = fixed.test(commands) ? shown : shown.slice(0, 1);
  return expected.filter((line) => !lines.has(plain(line))).map((line) => `${place}: not printed: ${line}`);
}

/** Returns the path of a program on this machine. */
function pathOf(program: string): string {
  const paths = (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, program));
  return paths.find((path) => existsSync(path)) ?? program;
}

/** Longest run of a session, in milliseconds; only a broken one takes that long. */
const patienceMs = 150_000;

/** Runs a bash script. Kills the programs that it leaves behind. */
async function runScript(script: string, cwd: string, env: Readonly<Record<string, string>>) {
  const file = join(cwd, ".script");
  writeFileSync(file, script);
  const child = spawn(pathOf("bash"), [file], {
    cwd,
    env: { ...cleanEnvironment(), NODE_COMPILE_CACHE: programCache, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    // A process group of its own, which can be killed as a whole.
    detached: true,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const stop = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // The script left nothing behind.
    }
  };
  process.once("exit", stop);
  child.once("exit", stop);
  const timer = setTimeout(stop, patienceMs);
  const [code] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  process.removeListener("exit", stop);
  return { code, output };
}
