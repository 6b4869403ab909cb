import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { migrationDigests, migrationFaults } from "./released-migrations.ts";

/*
 * `npm run release -- X.Y.Z` prepares a release in a clean checkout of main. It sets the version, dates the changelog, writes
 * the digests of the migrations, and packs the package. It does not commit, tag or publish, but prints the commands for that.
 */
const root = fileURLToPath(new URL("..", import.meta.url));
const migrations = join(root, "src/ledger/migrations");
const released = join(migrations, "released.json");
const changelog = join(root, "CHANGELOG.md");
const written = ["package.json", "package-lock.json", "CHANGELOG.md", "src/ledger/migrations/released.json"];

const read = (path: string) => readFileSync(join(root, path), "utf8");
const git = (...args: string[]) => spawnSync("git", args, { cwd: root, encoding: "utf8" });
const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

function refuse(sentence: string): never {
  process.stderr.write(`release: ${sentence}\n`);
  process.exit(2);
}

function parseVersion(text: string): readonly number[] | undefined {
  return /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/.exec(text)?.slice(1).map(Number);
}

/** Compares versions number by number. Returns a number below 0 if the first version is lower. */
function compare(a: readonly number[], b: readonly number[]): number {
  return a.map((part, index) => part - (b[index] ?? 0)).find((difference) => difference !== 0) ?? 0;
}

function checkVersion(wanted: readonly string[], changes: string): string {
  const [version] = wanted;
  if (version === undefined || wanted.length > 1)
    refuse(`expected one version, not ${wanted.length}; run npm run release -- X.Y.Z`);
  const parts = parseVersion(version);
  if (parts === undefined) refuse(`"${version}" is not a version; write three numbers, as in 1.4.0`);
  const current: string = JSON.parse(read("package.json")).version;
  const last = /^## (\d+\.\d+\.\d+)/m.exec(changes)?.[1];
  if (last !== undefined && compare(parts, parseVersion(last) ?? []) <= 0)
    refuse(`${version} is not higher than ${last}, the last release`);
  if (compare(parts, parseVersion(current) ?? []) < 0)
    refuse(`${version} is lower than ${current}, the version in package.json`);
  return version;
}

function checkTree(version: string): void {
  const branch = git("symbolic-ref", "--short", "HEAD");
  if (git("rev-parse", "--git-dir").status !== 0) refuse(`${root} is not a git checkout; run this in one`);
  if (branch.status !== 0) refuse("HEAD is not on a branch; run git switch main first");
  if (branch.stdout.trim() !== "main") refuse(`the branch is "${branch.stdout.trim()}"; run git switch main first`);
  const changed = git("status", "--porcelain")
    .stdout.split("\n")
    .filter((line) => line !== "")
    .map((line) => line.slice(3));
  if (changed.length > 0)
    refuse(
      `the checkout has changes (${changed.slice(0, 3).join(", ")}${changed.length > 3 ? ", …" : ""}); commit or stash them first`,
    );
  if (git("rev-parse", "--verify", "--quiet", `refs/tags/v${version}`).status === 0)
    refuse(`the tag v${version} exists already; choose a higher version`);
}

/** Returns the changelog with its unreleased entries under the version and today's date (UTC). */
function dated(changes: string, version: string): string {
  const heading = /^## Unreleased$/m.exec(changes);
  if (heading === null) refuse('CHANGELOG.md has no section "## Unreleased"');
  const after = changes.slice(heading.index + heading[0].length);
  if (!/^- /m.test(after.split(/^## /m)[0] ?? ""))
    refuse('the section "## Unreleased" of CHANGELOG.md has no entries; add the changes of the release');
  const today = new Date().toISOString().slice(0, 10);
  return `${changes.slice(0, heading.index)}${heading[0]}\n\n## ${version} - ${today}${after}`;
}

const changes = readFileSync(changelog, "utf8");
const version = checkVersion(process.argv.slice(2), changes);
checkTree(version);
const next = dated(changes, version);
const digests = migrationDigests(migrations);
const [fault] = migrationFaults(digests, JSON.parse(readFileSync(released, "utf8")));
if (fault !== undefined) refuse(fault);

/** Runs npm and returns its output. If npm fails, restores the changed files and exits. */
function npm(...args: string[]): string {
  const ran = spawnSync("npm", [...args, "--loglevel=error"], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (ran.status === 0) return ran.stdout;
  git("restore", ...written);
  process.stderr.write(`${ran.stdout}release: npm ${args[0]} failed as shown above; the changed files are restored\n`);
  process.exit(1);
}

npm("version", version, "--no-git-tag-version", "--allow-same-version");
writeFileSync(changelog, next);
writeFileSync(released, json(digests));
const archive = npm("pack").trim().split("\n").at(-1);

process.stdout.write(`Farebox ${version} is packed in ${archive}. Nothing is committed or published yet. Next:

  npm test && npm run test:all && npm run test:clients
  git commit -am "Release ${version}"
  git tag -a v${version} -m "Farebox ${version}"
  git push origin main v${version}
  npm publish ./${archive}

To undo this instead: git restore . && rm ${archive}
`);
