// @module-tag races
import { globSync, readdirSync, readFileSync, statSync } from "node:fs";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Response } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundledPackages, containedPackages } from "../../../scripts/bundled.ts";
import { readPriceTexts } from "../../../src/catalogue/load.ts";
import { prebuiltCatalogue } from "../../../src/catalogue/prebuilt.ts";
import { copyPacked } from "../../support/built-program.ts";
import { visit, withoutChromium } from "../../support/browser.ts";
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

const owned = new AsyncDisposableStack();
let copy: string;
let home: string;
let files: string[];

/** Packs a copy of the checkout and installs the tarball into an empty folder, as a user would. */
beforeAll(async () => {
  copy = owned.use(await emptyFolder()).path;
  home = owned.use(await emptyFolder()).path;
  await copyPacked(copy);
  const [made] = JSON.parse(await runWell("npm", ["pack", "--json"], { cwd: copy })) as [
    { filename: string; files: { path: string }[] },
  ];
  files = made.files.map(({ path }) => path);
  await writeFile(join(home, "package.json"), "{}");
  await runWell("npm", ["install", "--omit=dev", "--no-audit", "--no-fund", join(copy, made.filename)], { cwd: home });
}, 240_000);

afterAll(() => owned.disposeAsync());

const installed = (path: string) => join(home, "node_modules/farebox", path);
/** The command that npm linked. */
const farebox = () => join(home, "node_modules/.bin/farebox");
const command = (...args: string[]) => runWell(farebox(), args, { cwd: home });

describe("the tarball", () => {
  it("contains the program, the files that its modules read, and nothing else", () => {
    const source = globSync("**/*.*", { cwd: join(copy, "src"), exclude: ["**/*.ts", "dashboard/tsconfig.json"] }).map(
      (path) => `dist/${path}`,
    );
    const prices = globSync("**/*.*", { cwd: join(copy, "pricing") }).map((path) => `pricing/${path}`);
    const grafana = [
      ...globSync("{dashboards,exact}/**/*.*", { cwd: join(copy, "grafana") }),
      "prometheus/rules.yml",
    ].map((path) => `grafana/${path}`);
    const others = ["package.json", "README.md", "LICENSE", "CHANGELOG.md", "bin/farebox.mjs", "dist/licenses.txt"];
    const entries = [
      "main",
      "catalogue/worker",
      "dashboard/main",
      "ledger/sqlite/worker",
      "platform/tokens/worker",
      "server/workers/process",
    ].map((name) => `dist/${name}.js`);
    const tables = ["dist/chunks/tiktoken_bg.wasm", "dist/catalogue/shipped.bin"];
    const shared = files.filter((path) => /^dist\/chunks\/[\w.-]+\.js$/.test(path));
    expect(files.toSorted()).toEqual(
      [...source, ...shared, ...entries, ...tables, ...prices, ...grafana, ...others].toSorted(),
    );
    expect(files).toContain("dist/ledger/migrations/sqlite/023-ledger.sql");
  });

  it("contains no path of the build machine and imports no TypeScript file", () => {
    const modules = files.filter((path) => path.endsWith(".js")).map((path) => readFileSync(installed(path), "utf8"));
    expect(
      modules.filter((text) => text.includes(copy) || text.includes(checkout) || text.includes("sourceMappingURL=")),
    ).toEqual([]);
    expect(modules.filter((text) => /\bfrom ["'][^"']*\.ts["']|\bimport\(["'][^"']*\.ts["']/.test(text))).toEqual([]);
  });

  it("includes the licenses of the packages that it bundles, and imports none of them", async () => {
    const licenses = readFileSync(installed("dist/licenses.txt"), "utf8");
    const { packages } = JSON.parse(await readFile(join(checkout, "package-lock.json"), "utf8"));
    for (const name of containedPackages)
      expect(licenses).toContain(`dist contains parts of ${name} ${packages[`node_modules/${name}`].version}:`);
    for (const holder of ["OpenAI, Shantanu Jain", "Colin McDonnell", "Apache License", "Blue Oak"])
      expect(licenses).toContain(holder);
    const imported = new RegExp(`(?:from |import |import\\(|require\\()"(?:${bundledPackages().join("|")})"`);
    expect(
      files.filter((path) => /^dist\/.*\.js$/.test(path) && imported.test(readFileSync(installed(path), "utf8"))),
    ).toEqual([]);
  });

  it("takes at most 50 MB with all its dependencies", () => {
    const sizes = readdirSync(join(home, "node_modules"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath, entry.name)).size);
    const size = sizes.reduce((sum, bytes) => sum + bytes, 0);
    expect(size).toBeLessThanOrEqual(50_000_000);
    // Guards against measuring the wrong folder.
    expect(size).toBeGreaterThan(35_000_000);
  });

  it("installs only runtime dependencies", async () => {
    const { dependencies, devDependencies } = JSON.parse(await readFile(join(checkout, "package.json"), "utf8"));
    const present = new Set(globSync(["*", "@*/*"], { cwd: join(home, "node_modules") }));
    expect(Object.keys(dependencies).filter((name) => !present.has(name))).toEqual([]);
    expect(Object.keys(devDependencies).filter((name) => present.has(name))).toEqual([]);
  });
});

describe("the installed package", () => {
  it("prints its version", async () => {
    const { version } = JSON.parse(await readFile(join(checkout, "package.json"), "utf8"));
    expect(await command("--version")).toBe(`${version}\n`);
  });

  it("runs the demo through npx with the official SDK", async () => {
    const shown = await runWell("npx", ["--no", "farebox", "demo", "--once"], { cwd: home });
    expect(shown).toMatch(/^gpt-4\.1, stream without usage +\d+ chunks +reported /m);
    expect(shown).toContain("5 charges, 0 differences");
  });

  it("counts the tokens of an answer without usage, serves the whole dashboard, and verify finds no difference", async () => {
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
    // A bundler may remove a call that only shows whether a text can be decoded.
    expect((await fetch(`${url}/v1/%zz`)).status).toBe(404);
    const dashboard = [...(await loadedByDashboard(url))];
    expect(dashboard.filter(([, answer]) => !answer.startsWith("200 "))).toEqual([]);
    const loaded = dashboard.map(([address]) => address).filter((address) => !address.endsWith(".woff2"));
    expect(loaded.map((address) => address.replace(/.*\//, "")).toSorted()).toEqual([
      "chevron.svg",
      "icon.svg",
      "main.js",
      "style.css",
    ]);
    serving.signal("SIGTERM");
    expect(await serving.ended).toMatchObject({ code: 0 });
    // Without a terminal, each line of the log is JSON.
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

  it.skipIf(withoutChromium)("loads the dashboard with at most 6 requests and compressed text", async () => {
    const env = {
      ...machineEnvironment(),
      FAREBOX_GATEWAY_URL: "http://127.0.0.1:9",
      FAREBOX_GATEWAY_API_KEY: "sk-none",
      FAREBOX_PORT: "0",
    };
    await using serving = new RunningProgram(farebox(), ["serve"], { cwd: home, env });
    const url = await serving.printed(/^farebox listening on (\S+)$/m);
    await using visitor = await visit(url);
    const answers: Response[] = [];
    visitor.page.on("response", (answer) => answers.push(answer));
    await visitor.page.goto(`${url}/dashboard`);
    await visitor.page.getByRole("heading", { name: "Sign in" }).waitFor();
    const paths = answers.map((answer) => new URL(answer.url()).pathname.replace(/.*\//, ""));
    expect(paths.length, paths.join(" ")).toBeLessThanOrEqual(6);
    const plain = answers
      .filter((answer) => answer.headers()["content-encoding"] !== "gzip")
      .map((answer) => answer.url());
    expect(plain.filter((address) => /\.(?:js|css)$/.test(address))).toEqual([]);
    expect(paths).toEqual(expect.arrayContaining(["main.js", "style.css"]));
    expect(visitor.faults).toEqual([]);
  });

  it("serves with worker processes and the undici engine", async () => {
    await using sandbox = new RunningProgram(farebox(), ["sandbox", "--port", "0"], { cwd: home });
    const gateway = await sandbox.printed(/^sandbox gateway listening on (\S+)$/m);
    const key = (await command("keys", "create", "bob")).match(/sk-fb-\S+/)?.[0] ?? "";
    const env = {
      ...machineEnvironment(),
      FAREBOX_GATEWAY_URL: gateway,
      FAREBOX_GATEWAY_API_KEY: "sk-sandbox",
      FAREBOX_ENGINE: "undici",
      FAREBOX_PORT: "0",
    };
    await using serving = new RunningProgram(farebox(), ["serve", "--workers", "2"], { cwd: home, env });
    const url = await serving.printed(/^farebox listening on (\S+)$/m);
    expect((await sendChat(url, key, unreported)).status).toBe(200);
    serving.signal("SIGTERM");
    expect(await serving.ended).toMatchObject({ code: 0 });
    expect(await command("charges", "--key", "bob", "--json")).toContain('"source":"counted"');
  });

  it("contains its prices and their prebuilt catalogue", async () => {
    expect(await command("prices", "list")).toContain("gpt-4o-mini");
    const official = pathToFileURL(installed("pricing/presets/official.yaml"));
    for (const preset of [undefined, official]) {
      const read = await readPriceTexts({ shipped: installed("pricing"), preset });
      const stored = prebuiltCatalogue(
        read.ok ? read.layers : [],
        pathToFileURL(installed("dist/catalogue/shipped.bin")),
      );
      expect(stored?.named("gpt-4o-mini", Date.now())?.id).toBe("gpt-4o-mini");
    }
  });

  it("reports the position of an error in a price file", async () => {
    await mkdir(join(home, "wrong"), { recursive: true });
    await writeFile(join(home, "wrong/own.yaml"), "models:\n  mine:\n    list_price:\n      input: 5\n");
    const { code, stdout } = await run(farebox(), ["prices", "check", "wrong"], { cwd: home });
    expect(code).toBe(1);
    expect(stdout).toMatch(/own\.yaml:\d+:\d+/);
  });

  it("counts the same tokens as the checkout", async () => {
    const request = { model: "gpt-4o", messages: [{ role: "user", content: "Night train, 切符, 🎫 café" }] };
    await writeFile(join(home, "request.json"), JSON.stringify(request));
    const args = ["estimate", "--json", "--file", "request.json"];
    const checkedOut = join(checkout, "bin/farebox.mjs");
    expect(JSON.parse(await command(...args))).toEqual(
      JSON.parse(await runWell(process.execPath, [checkedOut, ...args], { cwd: home })),
    );
  });
});

describe("an unsupported Node", () => {
  const node = oldNode();

  it.skipIf(node === undefined)("is refused in one sentence, exit code 2, before anything else loads", async () => {
    await using folder = await emptyFolder();
    // The folder contains nothing else that could load.
    await mkdir(join(folder.path, "bin"));
    await cp(installed("bin/farebox.mjs"), join(folder.path, "bin/farebox.mjs"));
    const { code, stdout, stderr } = await run(node ?? "", [join(folder.path, "bin/farebox.mjs"), "serve"], {
      cwd: folder.path,
    });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(
      /^farebox needs Node 24\.16 or a newer Node 24, or Node 26\.1 or newer; this is Node \d+\.\d+\.\d+\.\n$/,
    );
  });

  it("is any version outside `engines`, and no other", async () => {
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
