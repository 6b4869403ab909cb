import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { machine } from "../report.ts";
import { readOptions, usage, type Options } from "./options.ts";
import type { Mode, Peer } from "./peer.ts";
import { loadPeer, peerNames } from "./registry.ts";
import { addResults, type Result, type Report } from "./result.ts";
import type { Session } from "./session.ts";

const sessionFile = fileURLToPath(new URL("./session.ts", import.meta.url));
/** Time after which a scenario's process is killed, in milliseconds; longer than the scenario's own limit. */
const scenarioLimitMs = 270_000;

/** Prefix that runs a command in separate namespaces. The command reaches only loopback, and its processes end with it. */
const namespaced = [
  "unshare",
  "--net",
  "--pid",
  "--fork",
  "--kill-child",
  "--mount-proc",
  "sh",
  "-c",
  'ip link set lo up && exec "$0" "$@"',
];

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (options === "help") return console.log(usage);
  if ("installInto" in options) return printInstall(await Promise.all(peerNames.map(loadPeer)), options.installInto);
  const peers = await Promise.all(options.peers.map(loadPeer));
  const isNamespaced = canUseNamespaces();
  for (const peer of peers) {
    for (const mode of modesOf(peer, options)) {
      const why = peer.missing(options.programs, mode);
      if (why === null) await measure(peer, mode, options, isNamespaced);
      else {
        console.error(`${peer.name} (${mode}) is not measured: ${why}. See npm run bench:money -- --install`);
        // Without --peers, a run measures only the installed peers.
        if (options.isNamed) process.exitCode = 1;
      }
    }
  }
}

function modesOf({ configurations }: Peer, { modes }: Options): readonly Mode[] {
  return modes.filter((mode) => configurations[mode] !== null);
}

async function measure(peer: Peer, mode: Mode, options: Options, isNamespaced: boolean): Promise<void> {
  const { scenarios, programs, json } = options;
  const session: Session = { peer: peer.name, mode, scenarios, programs };
  const [command = "", ...args] = [
    ...(isNamespaced ? namespaced : []),
    process.execPath,
    sessionFile,
    JSON.stringify(session),
  ];
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  const timer = setTimeout(kill, scenarios.length * scenarioLimitMs);
  const ended = once(child, "exit");
  for await (const line of createInterface({ input: child.stdout })) {
    const result = JSON.parse(line) as Result;
    console.log(lineOf(result));
    if (json !== null) write(json, peer, { ...result, isNamespaced });
  }
  const [code] = (await ended) as [number | null];
  clearTimeout(timer);
  process.off("exit", kill);
  if (code !== 0)
    console.error(
      `${peer.name} (${mode}) ended with ${code === null ? "a signal" : `exit code ${code}`}; its later scenarios have no figures`,
    );
}

function write(file: string, peer: Peer, result: Result): void {
  const report = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Report) : null;
  const { loadAverage, ...facts } = machine();
  const day = new Date().toISOString().slice(0, 10);
  const complete = { ...result, day, commit: commitNow(), loadAverage: Number(loadAverage) };
  writeFileSync(file, `${JSON.stringify(addResults(report, peer, [complete], facts), null, 2)}\n`);
}

/** Measured code: everything but results and documents. */
const measuredPaths = ["src", "bin", "bench", "test/support", "package-lock.json", ":!bench/results", ":!bench/*.md"];

/** Returns the commit of this checkout, with `-dirty` if its code differs from the commit; "unknown" outside a checkout. */
function commitNow(): string {
  const git = (...args: readonly string[]) =>
    execFileSync("git", args, { encoding: "utf8", cwd: fileURLToPath(new URL("../..", import.meta.url)) }).trim();
  try {
    const isDirty = git("status", "--porcelain", "--", ...measuredPaths) !== "";
    return git("rev-parse", "--short", "HEAD") + (isDirty ? "-dirty" : "");
  } catch {
    return "unknown";
  }
}

function canUseNamespaces(): boolean {
  const [command = "", ...args] = namespaced;
  try {
    execFileSync(command, [...args, "true"], { stdio: "ignore", timeout: 10_000 });
    return true;
  } catch {
    return false;
  }
}

function lineOf({ peer, mode, scenario, figures, seconds }: Result): string {
  const start = `${peer} (${mode}) ${scenario}:`;
  if ("unknown" in figures) return `${start} unknown, because ${figures.unknown}`;
  const { billedUsd, recordedUsd, recordedPercent, billedPercentOfLimit, letThrough, sent, told } = figures;
  const recorded =
    typeof recordedUsd === "string"
      ? `${recordedUsd} USD (${typeof recordedPercent === "number" ? `${recordedPercent}%` : "nothing billed"})`
      : `unknown, because ${recordedUsd.unknown}`;
  const { checkpoint } = figures;
  const before = checkpoint === null ? "" : `; at the checkpoint ${JSON.stringify(checkpoint)}`;
  const answers = Object.entries(told).map(([label, count]) => `${count} × ${label}`);
  return `${start} billed ${billedUsd} USD (${billedPercentOfLimit}% of the limit), recorded ${recorded}, let through ${letThrough} of ${sent}, refused although they would have fit ${figures.refusedThatWouldHaveFit ?? "unknown"}${before}; ${answers.join(", ")}; ${seconds} s`;
}

function printInstall(peers: readonly Peer[], programs: string): void {
  console.log(`PROGRAMS=${shellWord(programs)}\n`);
  for (const { name, install } of peers) {
    // Each peer has its own subshell, because some commands change the folder.
    if (install.length > 0) console.log(`# ${name}\n(\n${install.join("\n")}\n)\n`);
  }
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
});
