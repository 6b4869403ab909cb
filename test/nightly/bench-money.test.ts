// cspell:ignore gomodel
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { Gateway } from "../../bench/money/gateway-process.ts";
import { wrongProgram } from "../../bench/money/peers/call.ts";
import { prices, prompt } from "../../bench/money/scenarios.ts";
import { Program } from "../../bench/program.ts";
import type { Figures, Report } from "../../bench/money/result.ts";
import { usd } from "../../src/core/money.ts";
import { temporaryFolder } from "../support/farebox-process.ts";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";

const bench = new URL("../../bench/money/run.ts", import.meta.url).pathname;
const run = (...args: string[]) => promisify(execFile)(process.execPath, [bench, ...args]);

it("the money benchmark compares the ledger with the gateway in a burst, cut streams, a restart and a kill", async () => {
  await using folder = await temporaryFolder();
  const json = join(folder.path, "figures.json");
  const scenarios = ["burst-max-tokens", "gateway-cuts", "restart-in-window", "kill-during-holds"];
  await run("--peers", "farebox", "--modes", "default", "--scenarios", scenarios.join(","), "--json", json);

  const { results, peers } = JSON.parse(await readFile(json, "utf8")) as Report;
  expect(peers).toMatchObject({ farebox: { title: "Farebox, SQLite" } });
  expect(results.map(({ scenario }) => scenario)).toEqual(scenarios);
  const [burst, cuts, restart, killed] = results.map(({ figures }) => figures as Figures);
  if (burst === undefined || cuts === undefined || restart === undefined) throw new Error("figures are missing");

  expect(burst).toMatchObject({ exceededByUsd: "0.00", sent: 500, recordedUsd: burst.billedUsd, recordedPercent: 100 });
  expect(usd(burst.billedUsd)).toBe(BigInt(burst.letThrough) * usd("0.00055"));
  expect(burst.letThrough + burst.refused).toBe(500);
  expect(burst.told["200"]).toBe(burst.letThrough);

  expect(cuts).toMatchObject({ billedUsd: "0.021", recordedUsd: "0.021", letThrough: 20 });
  expect(cuts.told).toEqual({ "200, then gateway_stream_broken": 20 });

  expect(restart.checkpoint).toEqual({ billedUsd: "0.011", recordedUsd: "0.011", recordedPercent: 100 });
  expect(restart).toMatchObject({ exceededByUsd: "0.00", recordedUsd: restart.billedUsd });

  expect(killed?.atKill?.requests).toBeGreaterThanOrEqual(20);
  // The number of ended requests depends on the machine.
  expect(killed?.atKill).toMatchObject({ deltas: 0, ended: expect.any(Number) });
}, 240_000);

it("Gateway.until resolves when enough requests have arrived, and rejects if they do not in time", async () => {
  await using gateway = await Gateway.start(prices);
  await gateway.serve("tokens:5");
  const third = gateway.until({ requests: 3 }, 60_000);
  const chat = () =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: prompt }] }),
    }).then((answer) => answer.text());
  await chat();
  await chat();
  expect((await gateway.state()).requests).toBe(2);
  await Promise.all([chat(), chat(), chat()]);
  expect((await third).requests).toBe(3);
  expect(await gateway.until({ open: 0 }, 60_000)).toMatchObject({ open: 0, calls: 5 });
  await expect(gateway.until({ requests: 6 }, 50)).rejects.toThrow(
    "only 5 of 6 requests reached the gateway within 0.05 s",
  );
  await expect(gateway.until({ deltas: 1 }, 50)).rejects.toThrow("the gateway wrote only 0 of 1 events with text");
});

it("wrongProgram accepts only an existing program of the pinned version", () => {
  const version = (expected: string) => ({ command: process.execPath, args: ["--version"], expected });
  expect(wrongProgram(process.execPath, version(process.version))).toBeNull();
  expect(wrongProgram(process.execPath, version("v0.1"))).toMatch(/ is not v0\.1: v\d/);
  expect(wrongProgram("/nowhere", version(process.version))).toBe("/nowhere does not exist");
  const unknown = { command: "/nowhere", args: [], expected: "" };
  expect(wrongProgram(process.execPath, unknown)).toMatch(/^the version of .* is unknown: /);
});

it("the money benchmark ends with code 1 if a named peer is not installed; --install prints the programs' folder first", async () => {
  await using folder = await temporaryFolder();
  await expect(run("--peers", "bifrost,gomodel", "--programs", folder.path)).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/bifrost \(default\) is not measured: .*does not exist[^]*gomodel \(default\)/),
  });
  const { stdout } = await run("--install", "--programs", folder.path);
  expect(stdout).toMatch(`PROGRAMS=${folder.path}\n`);
  expect(stdout.startsWith("PROGRAMS=")).toBe(true);
});

it("the money benchmark refuses an unknown peer and lists the known ones", async () => {
  await expect(run("--peers", "nothing")).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("--peers takes farebox"),
  });
});

it("Program.restart kills a program with its children, and starts it on the same port", async () => {
  await using folder = await temporaryFolder();
  const port = await freePort();
  const server = `require("http").createServer((_, answer) => answer.end(String(process.pid))).listen(${port}, "127.0.0.1")`;
  const args = ["-c", 'sleep 600 & echo "child $!"; exec "$0" -e "$1"', process.execPath, server];
  await using program = await Program.start({ command: "sh", args, folder: folder.path, port });
  await until(() => program.output.includes("child"));
  const [, child = "0"] = /child (\d+)/.exec(program.output) ?? [];
  expect(isRunning(Number(child))).toBe(true);
  const answer = async () => (await fetch(`http://127.0.0.1:${port}`)).text();
  const before = await answer();

  await program.restart();
  await until(() => !isRunning(Number(child)));
  expect(isRunning(Number(before))).toBe(false);
  expect(await answer()).not.toBe(before);
});

it("Program.start reports why a program does not start", async () => {
  await using folder = await temporaryFolder();
  const port = await freePort();
  const started = Program.start({ command: "sh", args: ["-c", "echo no key; exit 3"], folder: folder.path, port });
  await expect(started).rejects.toThrow(`sh ended before it listened on port ${port}: no key`);
});

/** Returns false for a zombie process, too. */
function isRunning(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}
