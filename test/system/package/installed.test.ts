import { globSync, readFileSync } from "node:fs";
import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadedByDashboard } from "../../support/dashboard-files.ts";
import {
  checkout,
  emptyFolder,
  machineEnvironment,
  oldNode,
  run,
  RunningProgram,
  runWell,
  sendChat,
  unreported,
} from "../../support/run-program.ts";

/** Files of a checkout that `npm pack` reads. The rest stays away, so that a package that needs it fails here. */
const packed = [
  "package.json",
  "README.md",
  "LICENSE",
  "CHANGELOG.md",
  "bin",
  "grafana",
  "pricing",
  "scripts",
  "src",
  "tsconfig.json",
  "tsconfig.build.json",
];

const owned = new AsyncDisposableStack();
let copy: string;
let home: string;
let files: string[];

/** Packs a copy of the checkout and installs the tarball into an empty folder, as a user would. */
beforeAll(async () => {
  copy = owned.use(await emptyFolder()).path;
  home = owned.use(await emptyFolder()).path;
  for (const name of packed) await cp(join(checkout, name), join(copy, name), { recursive: true });
  await symlink(join(checkout, "node_modules"), join(copy, "node_modules"));
  const [made] = JSON.parse(await runWell("npm", ["pack", "--json"], { cwd: copy })) as [
    { filename: string; files: { path: string }[] },
  ];
  files = made.files.map(({ path }) => path);
  await writeFile(join(home, "package.json"), "{}");
  await runWell("npm", ["install", "--no-audit", "--no-fund", join(copy, made.filename)], { cwd: home });
}, 120_000);

afterAll(() => owned.disposeAsync());

const installed = (path: string) => join(home, "node_modules/farebox", path);
/** The command that npm linked. */
const farebox = () => join(home, "node_modules/.bin/farebox");
const command = (...args: string[]) => runWell(farebox(), args, { cwd: home });

describe("the tarball", () => {
  it("carries each module compiled, and the files that modules read, and nothing else", () => {
    const source = globSync("**/*.*", { cwd: join(copy, "src"), exclude: ["dashboard/tsconfig.json"] }).map(
      (path) => `dist/${path.replace(/\.ts$/, ".js")}`,
    );
    const prices = globSync("*", { cwd: join(copy, "pricing") }).map((path) => `pricing/${path}`);
    const grafana = [
      ...globSync("{dashboards,exact}/**/*.*", { cwd: join(copy, "grafana") }),
      "prometheus/rules.yml",
    ].map((path) => `grafana/${path}`);
    const others = ["package.json", "README.md", "LICENSE", "CHANGELOG.md", "bin/farebox.mjs"];
    expect(files.toSorted()).toEqual([...source, ...prices, ...grafana, ...others].toSorted());
    expect(files).toContain("dist/ledger/migrations/sqlite/001-ledger.sql");
  });

  it("names no place of the machine that made it, and no TypeScript file", () => {
    const modules = files.filter((path) => path.endsWith(".js")).map((path) => readFileSync(installed(path), "utf8"));
    expect(
      modules.filter((text) => text.includes(copy) || text.includes(checkout) || text.includes("sourceMappingURL=")),
    ).toEqual([]);
    expect(modules.filter((text) => /\bfrom ["'][^"']*\.ts["']|\bimport\(["'][^"']*\.ts["']/.test(text))).toEqual([]);
  });

  it("brings runtime dependencies only", async () => {
    const { dependencies, devDependencies } = JSON.parse(await readFile(join(checkout, "package.json"), "utf8"));
    const brought = new Set(globSync(["*", "@*/*"], { cwd: join(home, "node_modules") }));
    expect(Object.keys(dependencies).filter((name) => !brought.has(name))).toEqual([]);
    expect(Object.keys(devDependencies).filter((name) => brought.has(name))).toEqual([]);
  });
});

describe("the installed package", { timeout: 90_000 }, () => {
  it("says its version", async () => {
    const { version } = JSON.parse(await readFile(join(checkout, "package.json"), "utf8"));
    expect(await command("--version")).toBe(`${version}\n`);
  });

  it("shows the demo through npx, with the official SDK", async () => {
    const shown = await runWell("npx", ["--no", "farebox", "demo", "--once"], { cwd: home });
    expect(shown).toMatch(/^gpt-4\.1, usage not asked for +\d+ chunks +reported /m);
    expect(shown).toContain("5 charges, 0 differences");
  });

  it("serves: a request without usage is counted by the worker, and verify finds nothing", async () => {
    await using sandbox = new RunningProgram(farebox(), ["sandbox", "--port", "0"], { cwd: home });
    const gateway = await sandbox.printed(/^sandbox gateway listening on (\S+)$/m);
    const key = (await command("keys", "create", "alice")).match(/sk-fb-\S+/)?.[0] ?? "";
    await command("budgets", "set", "key:alice", "5", "--per", "1d");

    const env = {
      ...machineEnvironment(),
      FAREBOX_GATEWAY_URL: gateway,
      FAREBOX_GATEWAY_API_KEY: "sk-sandbox",
      FAREBOX_PORT: "0",
    };
    await using serving = new RunningProgram(farebox(), ["serve"], { cwd: home, env });
    const url = await serving.printed(/^farebox listening on (\S+)$/m);
    expect((await sendChat(url, key, unreported)).status).toBe(200);
    const dashboard = [...(await loadedByDashboard(url))];
    expect(dashboard.filter(([, answer]) => !answer.startsWith("200 "))).toEqual([]);
    expect(dashboard.map(([address]) => address)).toContain(`${url}/dashboard/assets/views/overview.js`);
    serving.signal("SIGTERM");
    expect(await serving.ended).toMatchObject({ code: 0 });
    // Not a terminal: each line of the log is JSON, none is pretty.
    expect(
      serving.stderr
        .trim()
        .split("\n")
        .filter((line) => line.startsWith("{")).length,
    ).toBeGreaterThan(0);

    const charges = JSON.parse(await command("charges", "--json")) as unknown;
    expect(JSON.stringify(charges)).toContain('"source":"counted"');
    expect(await command("verify")).toBe("1 charge checked, no difference\n");
    sandbox.signal("SIGTERM");
    expect(await sandbox.ended).toMatchObject({ code: 0 });
  });

  it("brings its prices", async () => {
    expect(await command("prices", "list")).toContain("gpt-4o-mini");
  });
});

describe("a Node that is too old", () => {
  const node = oldNode();

  it.skipIf(node === undefined)("is refused in one sentence, exit code 2, before anything else loads", async () => {
    await using folder = await emptyFolder();
    // Alone in its folder: there is nothing else that could load.
    await mkdir(join(folder.path, "bin"));
    await cp(installed("bin/farebox.mjs"), join(folder.path, "bin/farebox.mjs"));
    const { code, stdout, stderr } = await run(node ?? "", [join(folder.path, "bin/farebox.mjs"), "serve"], {
      cwd: folder.path,
    });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(
      /^farebox needs Node 24 from 24\.16 on, or 26\.1 or newer, and this is Node \d+\.\d+\.\d+\.\n$/,
    );
  });

  it("is one that `engines` leaves out, and no other", async () => {
    const { engines } = JSON.parse(await readFile(installed("package.json"), "utf8"));
    expect(engines.node).toBe("^24.16.0 || >=26.1.0");
    const accepted: Record<string, boolean> = {
      "24.15.9": false,
      "24.16.0": true,
      "25.9.0": false,
      "26.0.9": false,
      "26.1.0": true,
      "27.0.0": true,
    };
    for (const [version, fits] of Object.entries(accepted)) {
      const script = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } });
        process.argv.push("farebox", "--version"); await import(${JSON.stringify(installed("bin/farebox.mjs"))});`;
      const { code } = await run(process.execPath, ["--input-type=module", "-e", script], { cwd: home });
      expect([version, code]).toEqual([version, fits ? 0 : 2]);
    }
  });
});
