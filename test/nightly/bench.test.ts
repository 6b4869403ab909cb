import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const bench = new URL("../../bench/run.ts", import.meta.url).pathname;
const run = (...args: string[]) => promisify(execFile)(process.execPath, [bench, ...args]);

interface Report {
  readonly workloads: readonly {
    readonly name: string;
    readonly memory: Readonly<Record<string, { readonly atRest: number; readonly peak: number }>>;
    readonly samples: Readonly<Record<string, readonly { readonly requests: number; readonly cpuUs: number | null }[]>>;
  }[];
}

it("the benchmark checks every answer and the ledger, and measures each target in each round", async () => {
  const folder = await mkdtemp(join(tmpdir(), "farebox-test-"));
  try {
    const json = join(folder, "figures.json");
    const tiny = [
      "--targets",
      "direct,bare,farebox,undici",
      "--rounds",
      "2",
      "--seconds",
      "0.1",
      "--requests",
      "6",
      "--connections",
      "3",
      "--streams",
      "3",
    ];
    const { stdout } = await run(...tiny, "--only", "stream,paced", "--json", json);
    expect(stdout).toMatch(/stream: 200 chunks in one burst\ntarget .*x bare/);

    const { workloads } = JSON.parse(await readFile(json, "utf8")) as Report;
    expect(workloads.map(({ name }) => name)).toEqual(["stream", "paced"]);
    for (const { samples, memory } of workloads) {
      expect(Object.keys(samples)).toEqual(["direct", "bare", "farebox", "undici"]);
      // The values depend on the machine. The next test checks what the benchmark calculates from samples.
      for (const [target, ofTarget] of Object.entries(samples)) {
        const sample = { requests: expect.any(Number), cpuUs: target === "direct" ? null : expect.any(Number) };
        expect(ofTarget).toEqual([expect.objectContaining(sample), expect.objectContaining(sample)]);
      }
      expect(Object.keys(memory)).toEqual(["bare", "farebox", "undici"]);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 240_000);

it("the benchmark measures the installed programs, and prints how to install the others", async () => {
  const folder = await mkdtemp(join(tmpdir(), "farebox-test-"));
  try {
    const { stdout } = await run(
      "--rounds",
      "1",
      "--requests",
      "2",
      "--held",
      "4",
      "--only",
      "held",
      "--targets",
      "direct,farebox,portkey,litellm",
      "--others",
      folder,
    );
    expect(stdout).toContain(
      "portkey is not measured, because it is not installed. To install it: mkdir -p bench/.others/portkey",
    );
    expect(stdout).toContain("litellm is not measured, because it is not installed. To install it: python3 -m venv");
    // Four streams are too few to measure their memory, so any number is accepted.
    expect(stdout).toMatch(/\nfarebox .* (-?\d+) +\1-\1\n/);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 240_000);

it("the benchmark refuses an unknown workload and lists the known ones", async () => {
  await expect(run("--only", "nothing")).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("--only takes plain"),
  });
});

it("the check of a change measures five workloads next to another commit, and removes its worktree", async () => {
  const worktrees = async () => (await promisify(execFile)("git", ["worktree", "list"])).stdout;
  const before = await worktrees();
  // The exit code depends on the machine: 1 if the same code happens to be more than 15% slower.
  const { stdout } = await run("--check", "--against", "HEAD").catch((error: { code: number; stdout: string }) => {
    if (error.code === 1 && error.stdout.includes("WORSE")) return error;
    throw error;
  });
  const [title, ...lines] = stdout.trimEnd().split("\n");
  expect(title).toMatch(/^CPU of a request with this checkout, divided by that with commit [0-9a-f]{8}:$/);
  expect(lines.map((line) => line.replace(/:.*/, ""))).toEqual([
    "plain",
    "burst stream",
    "burst stream without a budget",
    "100 streams at 5 ms a chunk",
    "100 kB prompt",
  ]);
  const form = /: \d+\.\d\d x bare before, \d+\.\d\d x with the change; ratio \d+\.\d\d \(\d+\.\d\d-\d+\.\d\d\)/;
  expect(lines.filter((line) => !form.test(line))).toEqual([]);
  expect(await worktrees()).toBe(before);
}, 600_000);

it("the check of a change refuses an unknown commit", async () => {
  await expect(run("--check", "--against", "no-such-commit")).rejects.toMatchObject({
    code: 1,
    stderr: '"no-such-commit" is not a commit of this repository\n',
  });
});
