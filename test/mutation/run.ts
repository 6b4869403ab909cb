/**
 * `npm run test:mutation`: changes each expression of the money path, one at a time, and expects a test to fail. Fails if a
 * mutant survives that survivors.ts does not list, or if a test kills a listed mutant. To test only some files, add their names,
 * such as `core/budget`.
 */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installIn } from "../support/install-in.ts";
import { declaration, judge, type ReportedFile, type Verdict } from "./mutants.ts";
import { survivors } from "./survivors.ts";

const folder = fileURLToPath(new URL(".", import.meta.url));
const root = fileURLToPath(new URL("../..", import.meta.url));
/** Copy of the checkout into which Stryker writes mutants. */
const copy = join(root, ".stryker-tmp");
const reportFile = join(copy, "report.json");
const read = (path: string) => readFileSync(join(root, path), "utf8");

/** Files of `src` to mutate. Files that contain only types have nothing to mutate. */
const mutable = [
  ...globSync("core/*.ts", { cwd: join(root, "src") }),
  ...["settle", "hold", "price", "meter", "growing-hold"].map((name) => `request/${name}.ts`),
]
  .filter((file) =>
    read(`src/${file}`)
      .split("\n")
      .some((line) => declaration.test(line)),
  )
  .toSorted();

/** Fast in-process tests that may run against a mutant. A tokenizer thread takes longer to start than all these tests. */
const tests = globSync("test/unit/{core,request}/*.test.ts", { cwd: root })
  .map((path) => ({ path, source: read(path) }))
  .filter(({ source }) => !source.includes("/src/platform/tokens/token-counter.ts"));

/** Smallest share of behavior-changing mutants that tests must kill. */
const killedShareMin = 0.95;

const asked = process.argv.slice(2).map((name) => `${name.replace(/^src\/|\.ts$/g, "")}.ts`);
const unknown = asked.filter((file) => !mutable.includes(file));
if (unknown.length > 0) fail(`cannot mutate ${unknown.join(", ")}; choose from ${mutable.join(", ")}`);

await installIn(folder);
const begun = performance.now();
makeCopy();
const rows = (asked.length > 0 ? asked : mutable).map((file) => {
  const fileBegun = performance.now();
  const verdict = judge(mutate(file), survivors[file] ?? []);
  show(file, verdict, secondsSince(fileBegun));
  return verdict;
});
rmSync(copy, { recursive: true });
conclude();

/** Copies the checkout. Replaces the types in mutated files with spaces, because Stryker does not mutate `(a + b) as PicoUsd`. */
function makeCopy(): void {
  rmSync(copy, { recursive: true, force: true });
  for (const path of ["src", "test", "simulation", "pricing", "package.json"]) {
    cpSync(join(root, path), join(copy, path), {
      recursive: true,
      filter: (source) => !source.endsWith("node_modules"),
    });
  }
  for (const file of mutable) writeFileSync(join(copy, "src", file), stripTypeScriptTypes(read(`src/${file}`)));
}

/**
 * Returns the tests named after a file (`money.test.ts`, `money-table.test.ts`). If there are none, returns all tests that
 * import the file. These are many and slow.
 */
function testsOf(file: string): readonly string[] {
  const importing = tests.filter(({ source }) => source.includes(`/src/${file}"`)).map(({ path }) => path);
  if (importing.length === 0) fail(`src/${file}: none of the ${tests.length} tests in test/unit imports this file`);
  const stem = `test/unit/${file.replace(".ts", "")}`;
  const named = importing.filter((path) => path === `${stem}.test.ts` || path.startsWith(`${stem}-`));
  return named.length > 0 ? named : importing;
}

/** Runs the tests of a file against each of its mutants. */
function mutate(file: string): ReportedFile {
  rmSync(reportFile, { force: true });
  const stryker = join(folder, "node_modules/@stryker-mutator/core/bin/stryker.js");
  const config = join(folder, "stryker.config.json");
  const { status, stdout } = spawnSync(process.execPath, [stryker, "run", config, "--mutate", `src/${file}`], {
    cwd: copy,
    env: { ...process.env, FAREBOX_MUTATION_TESTS: testsOf(file).join(",") },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0 || !existsSync(reportFile)) fail(`${stdout}\nsrc/${file}: Stryker ended with exit code ${status}`);
  const { files } = JSON.parse(readFileSync(reportFile, "utf8")) as { files: Record<string, ReportedFile> };
  return files[`src/${file}`] ?? { source: "", mutants: [] };
}

function show(file: string, { killed, equivalent, accepted, unlisted, gone, broken }: Verdict, seconds: number): void {
  const alive = accepted + unlisted.length;
  const counts = { mutants: killed + equivalent + alive, killed, equivalent, alive, s: seconds };
  write(
    [file.padEnd(30), ...Object.entries(counts).map(([name, count]) => `${String(count).padStart(5)} ${name}`)].join(
      "",
    ),
  );
  for (const name of unlisted) write(`  survived, but survivors.ts does not list it: ${name}`);
  for (const name of gone) write(`  in survivors.ts, but killed or no longer in the source: ${name}`);
  for (const name of broken) write(`  no result: ${name}`);
}

function conclude(): void {
  const sum = (of: (verdict: Verdict) => number) => rows.reduce((total, verdict) => total + of(verdict), 0);
  const killed = sum((each) => each.killed);
  const alive = sum(({ accepted, unlisted }) => accepted + unlisted.length);
  const share = killed + alive === 0 ? 1 : killed / (killed + alive);
  write(
    `${killed} of ${killed + alive} mutants that change behavior were killed (${(share * 100).toFixed(1)}%); ` +
      `${sum((each) => each.equivalent)} mutants are equivalent; ${secondsSince(begun)} s`,
  );
  if (share < killedShareMin) write(`less than ${killedShareMin * 100}% were killed`);
  const faults = sum(({ unlisted, gone, broken }) => unlisted.length + gone.length + broken.length);
  if (share < killedShareMin || faults > 0) process.exitCode = 1;
}

function secondsSince(then: number): number {
  return Math.round((performance.now() - then) / 1000);
}

function write(line: string): void {
  process.stdout.write(`${line}\n`);
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
