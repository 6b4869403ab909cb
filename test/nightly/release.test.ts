import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

const checkout = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "farebox-release-"));
const clone = join(folder, "clone");
const path = (name: string) => join(clone, name);
const read = (name: string) => readFileSync(path(name), "utf8");
const version = (name: string): string => JSON.parse(read(name)).version;

const who = ["-c", "user.name=Farebox", "-c", "user.email=farebox@example.com", "-c", "commit.gpgSign=false"];
const git = (...args: string[]) => execFileSync("git", [...who, ...args], { cwd: clone, encoding: "utf8" });
const release = (...args: string[]) =>
  spawnSync("npm", ["run", "--silent", "release", "--", ...args], { cwd: clone, encoding: "utf8" });

const npmVersion = (next: string) => execFileSync("npm", ["version", next, "--no-git-tag-version"], { cwd: clone });

/** Replaces the changelog of this checkout, which must not affect the test. */
const changelog = `# Changelog

## Unreleased

### Added
- A thing.

## 0.9.0 - 2026-01-31

### Added
- The first thing.
`;

beforeAll(() => {
  // Copies the work tree, including changes that are not committed.
  execFileSync("git", ["init", "--quiet", "-b", "main", clone]);
  const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: checkout,
    encoding: "utf8",
  });
  for (const name of files.split("\0").filter((file) => file !== "" && existsSync(join(checkout, file))))
    cpSync(join(checkout, name), path(name));
  symlinkSync(join(checkout, "node_modules"), path("node_modules"));
  appendFileSync(path(".git/info/exclude"), "/node_modules\n");
  writeFileSync(path("CHANGELOG.md"), changelog);
  npmVersion("0.9.0");
  git("add", "--all");
  git("commit", "--quiet", "--message", "Before the release");
  git("tag", "start");
}, 60_000);

beforeEach(() => {
  git("switch", "--quiet", "--force", "-C", "main", "start");
  git("clean", "--quiet", "--force", "-dx", "--exclude=node_modules");
});

afterAll(() => rmSync(folder, { recursive: true }));

it(
  "a release dates the changelog, sets the version, lists the migrations and packs, without a commit",
  { timeout: 240_000 },
  () => {
    const before = git("rev-parse", "HEAD", "refs/heads/main");
    const days = [new Date()];
    const ran = release("1.0.0");
    days.push(new Date());
    expect(ran).toMatchObject({ status: 0, stderr: "" });

    expect([version("package.json"), version("package-lock.json")]).toEqual(["1.0.0", "1.0.0"]);
    const dated = days.map((day) =>
      changelog.replace("## Unreleased\n", `## Unreleased\n\n## 1.0.0 - ${day.toISOString().slice(0, 10)}\n`),
    );
    expect(dated).toContain(read("CHANGELOG.md"));
    expect(Object.keys(JSON.parse(read("src/ledger/migrations/released.json")))).toContain("sqlite/023-ledger.sql");
    expect(
      git("status", "--porcelain")
        .trimEnd()
        .split("\n")
        .map((line) => line.slice(3)),
    ).toEqual(["CHANGELOG.md", "package-lock.json", "package.json", "src/ledger/migrations/released.json"]);
    const packed = execFileSync(
      "tar",
      ["-xzOf", path("farebox-1.0.0.tgz"), "package/package.json", "package/CHANGELOG.md"],
      { encoding: "utf8" },
    );
    expect(packed).toContain('"version": "1.0.0"');
    expect(packed).toContain("## 1.0.0 - ");

    expect(ran.stdout).toContain("packed in farebox-1.0.0.tgz. Nothing is committed or published yet.");
    for (const step of [
      "npm run test:all",
      'git commit -am "Release 1.0.0"',
      "git tag -a v1.0.0",
      "npm publish ./farebox-1.0.0.tgz",
    ])
      expect(ran.stdout).toContain(step);
    expect([git("rev-parse", "HEAD", "refs/heads/main"), git("tag")]).toEqual([before, "start\n"]);

    // Released migrations are frozen from then on.
    git("commit", "--quiet", "--all", "--message", "Release 1.0.0");
    writeFileSync(
      path("CHANGELOG.md"),
      read("CHANGELOG.md").replace("## Unreleased\n", "## Unreleased\n\n- Another thing.\n"),
    );
    appendFileSync(path("src/ledger/migrations/sqlite/023-ledger.sql"), "-- later\n");
    git("commit", "--quiet", "--all", "--message", "An edit");
    expect(release("1.0.1")).toMatchObject({
      status: 2,
      stderr:
        "release: the migration sqlite/023-ledger.sql was released, but is edited; restore it, and make the change in a new migration\n",
    });
  },
);

describe("a release is refused in one sentence and changes nothing, given", () => {
  const inChangelog = (from: string, to: string) => () => {
    writeFileSync(path("CHANGELOG.md"), changelog.replace(from, to));
    git("commit", "--quiet", "--all", "--message", "Another changelog");
  };
  const nothing = () => {};

  it.each<[name: string, args: string[], prepare: () => void, sentence: string]>([
    ["no version", [], nothing, "expected one version, not 0; run npm run release -- X.Y.Z"],
    ["two versions", ["1.0.0", "1.0.1"], nothing, "expected one version, not 2; run npm run release -- X.Y.Z"],
    ["a version of two numbers", ["1.0"], nothing, '"1.0" is not a version; write three numbers, as in 1.4.0'],
    ["a leading v", ["v1.0.0"], nothing, '"v1.0.0" is not a version; write three numbers, as in 1.4.0'],
    ["a leading zero", ["1.01.0"], nothing, '"1.01.0" is not a version; write three numbers, as in 1.4.0'],
    ["the last release's version", ["0.9.0"], nothing, "0.9.0 is not higher than 0.9.0, the last release"],
    [
      "a version below the last release, though above the one in package.json",
      ["0.10.0"],
      inChangelog("## 0.9.0", "## 0.11.0"),
      "0.10.0 is not higher than 0.11.0, the last release",
    ],
    [
      "a version below the one in package.json",
      ["1.0.0"],
      () => {
        npmVersion("2.0.0");
        git("commit", "--quiet", "--all", "--message", "Ahead");
      },
      "1.0.0 is lower than 2.0.0, the version in package.json",
    ],
    [
      "another branch",
      ["1.0.0"],
      () => git("switch", "--quiet", "-C", "topic"),
      'the branch is "topic"; run git switch main first',
    ],
    [
      "no branch",
      ["1.0.0"],
      () => git("switch", "--quiet", "--detach"),
      "HEAD is not on a branch; run git switch main first",
    ],
    [
      "an edited file",
      ["1.0.0"],
      () => appendFileSync(path("README.md"), "x"),
      "the checkout has changes (README.md); commit or stash them first",
    ],
    [
      "a new file",
      ["1.0.0"],
      () => writeFileSync(path("notes"), ""),
      "the checkout has changes (notes); commit or stash them first",
    ],
    [
      "a changelog without an Unreleased section",
      ["1.0.0"],
      inChangelog("## Unreleased", "## Next"),
      'CHANGELOG.md has no section "## Unreleased"',
    ],
    [
      "an Unreleased section that has only headings",
      ["1.0.0"],
      inChangelog("- A thing.\n", ""),
      'the section "## Unreleased" of CHANGELOG.md has no entries; add the changes of the release',
    ],
  ])("%s", (_, args, prepare, sentence) => {
    prepare();
    const before = [git("rev-parse", "HEAD"), git("status", "--porcelain")];
    expect(release(...args)).toMatchObject({ status: 2, stdout: "", stderr: `release: ${sentence}\n` });
    expect([git("rev-parse", "HEAD"), git("status", "--porcelain")]).toEqual(before);
  });

  it("a tag that exists", () => {
    git("tag", "v1.0.0");
    try {
      expect(release("1.0.0")).toMatchObject({
        status: 2,
        stderr: "release: the tag v1.0.0 exists already; choose a higher version\n",
      });
    } finally {
      git("tag", "--delete", "v1.0.0");
    }
  });

  it("a package that cannot be built", { timeout: 120_000 }, () => {
    writeFileSync(path("src/broken.ts"), 'export const broken: number = "text";\n');
    git("add", "--all");
    git("commit", "--quiet", "--message", "Broken");
    const ran = release("1.0.0");
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain("src/broken.ts(1,14): error TS2322");
    expect(ran.stderr).toContain("release: npm pack failed as shown above; the changed files are restored\n");
    expect([git("status", "--porcelain"), version("package.json"), existsSync(path("farebox-1.0.0.tgz"))]).toEqual([
      "",
      "0.9.0",
      false,
    ]);
  });
});
