import { spawn } from "node:child_process";
import { chown, chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { globSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startSandbox } from "../../src/sandbox/server.ts";
import {
  checkout,
  emptyFolder,
  run,
  RunningProgram,
  runWell,
  sendChat,
  unreported,
  type RunOptions,
} from "../support/run-program.ts";
import { environmentOf, inForce, stagesOf, withAncestors, type Instruction } from "../support/dockerfile.ts";
import { buildImage, filesBelow } from "../support/docker-image.ts";

/*
 * Tests the image without a container engine: runs the Dockerfile's steps in folders, and starts the result with its
 * entry point.
 */

const owned = new AsyncDisposableStack();
let image: readonly Instruction[];
let root: string;
/** User of the image; undefined if the test may not switch to it. In the image, this user can write only to /data. */
let user: number | undefined;

beforeAll(async () => {
  const folder = owned.use(await emptyFolder()).path;
  await chmod(folder, 0o755);
  const stages = stagesOf(await readFile(join(checkout, "Dockerfile"), "utf8"));
  const last = stages.at(-1);
  image = last === undefined ? [] : withAncestors(last, stages);
  root = await buildImage(stages, folder);
  await mkdir(join(root, "data"), { mode: 0o700 });
  if (process.getuid?.() === 0) {
    user = Number(inForce(image, "USER").split(":")[0]);
    await chown(join(root, "data"), user, user);
  }
}, 180_000);

afterAll(() => owned.disposeAsync());

/** Replaces an absolute path of the Dockerfile by its place in the image's folder. */
const placed = (word: string) => (/^\/(app|data)\b/.test(word) ? join(root, word) : word);

/** Returns the image's environment, with a local address and with /data as the only writable folder. */
function containerOptions(more: Readonly<Record<string, string>> = {}): RunOptions {
  const own = Object.entries(environmentOf(image)).map(([name, value]) => [name, placed(value)]);
  const unwritable = { HOME: "/proc", TMPDIR: "/proc", PATH: join(root, "usr/local/bin") };
  const env = { ...Object.fromEntries(own), ...unwritable, FAREBOX_HOST: "127.0.0.1", FAREBOX_PORT: "0", ...more };
  return { cwd: user === undefined ? "/proc" : join(root, inForce(image, "WORKDIR")), env, user };
}

const [entry, command] = [
  () => JSON.parse(inForce(image, "ENTRYPOINT")).map(placed),
  () => JSON.parse(inForce(image, "CMD")),
];
const node = () => join(root, "usr/local/bin", entry()[0]);
const farebox = (...args: string[]) => runWell(node(), [...entry().slice(1), ...args], containerOptions());

it("the image contains the runtime dependencies, but no development packages, sources or tests", async () => {
  const { dependencies, devDependencies } = JSON.parse(await readFile(join(checkout, "package.json"), "utf8"));
  const installed = new Set(globSync(["*", "@*/*"], { cwd: join(root, "app/node_modules") }));
  expect(Object.keys(dependencies).filter((name) => !installed.has(name))).toEqual([]);
  const { packages } = JSON.parse(await readFile(join(checkout, "package-lock.json"), "utf8"));
  // Excludes packages that a runtime dependency needs as well.
  const isForDevelopment = (name: string) => packages[`node_modules/${name}`]?.dev === true;
  expect(Object.keys(devDependencies).filter((name) => installed.has(name) && isForDevelopment(name))).toEqual([]);
  expect(globSync("*", { cwd: join(root, "app") }).toSorted()).toEqual(
    ["LICENSE", "bin", "dist", "node_modules", "package-lock.json", "package.json", "pricing"].toSorted(),
  );
});

it("the image adds at most 20 MB to its base image, compressed", { timeout: 60_000 }, async () => {
  const { stdout } = spawn("tar", ["-cz", "-C", root, "app"], { stdio: ["ignore", "pipe", "inherit"] });
  const size = await stdout.reduce((sum, chunk: Buffer) => sum + chunk.length, 0);
  expect(size).toBeLessThanOrEqual(20_000_000);
  // Guards against a measurement of the wrong folder.
  expect(size).toBeGreaterThan(10_000_000);
});

it(
  "the image serves as its user, writes only to /data, passes its health check, and ends on SIGTERM",
  { timeout: 60_000 },
  async () => {
    await using sandbox = await startSandbox();
    const before = await filesBelow(join(root, "app"));
    const secret = join(root, "data/gateway.key");
    await writeFile(secret, `${sandbox.apiKey}\n`, { mode: 0o644 });

    const key = (await farebox("keys", "create", "alice")).match(/sk-fb-\S+/)?.[0] ?? "";
    const options = containerOptions({ FAREBOX_GATEWAY_URL: sandbox.url, FAREBOX_GATEWAY_API_KEY_FILE: secret });
    await using serving = new RunningProgram(node(), [...entry().slice(1), ...command()], options);
    const url = await serving.printed(/^farebox listening on (\S+)$/m);
    expect((await sendChat(url, key, unreported)).status).toBe(200);

    const [, check = "[]"] = /CMD (\[.*\])$/.exec(inForce(image, "HEALTHCHECK")) ?? [];
    const health = (port: string) => run(node(), JSON.parse(check).slice(1), containerOptions({ FAREBOX_PORT: port }));
    expect(await health(new URL(url).port)).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(await health("9")).toEqual({ code: 1, stdout: "", stderr: "" });

    serving.signal("SIGTERM");
    expect(await serving.ended).toMatchObject({ code: 0 });
    expect(serving.stderr).not.toMatch(/EACCES|ENOENT|EROFS|Warning/);
    expect(await farebox("verify")).toBe("1 charge checked, no difference\n");

    expect((await stat(join(root, "data/farebox.db"))).mode & 0o777).toBe(0o600);
    expect(await filesBelow(join(root, "app"))).toEqual(before);
  },
);

it("the image reports a ledger that cannot be written", { timeout: 60_000 }, async () => {
  const options = containerOptions({
    FAREBOX_GATEWAY_URL: "http://127.0.0.1:9",
    FAREBOX_GATEWAY_API_KEY: "sk-x",
    FAREBOX_DATABASE: "/proc/farebox.db",
  });
  const { code, stderr } = await run(node(), [...entry().slice(1), ...command()], options);
  expect(code).toBe(2);
  expect(stderr).toMatch(/^farebox: the ledger at \/proc\/farebox\.db cannot be opened: [^\n]+\n$/);
});

it("the image runs the demo without any settings", { timeout: 60_000 }, async () => {
  await using temporary = await emptyFolder();
  if (user !== undefined) await chown(temporary.path, user, user);
  const shown = await runWell(
    node(),
    [...entry().slice(1), "demo", "--once"],
    containerOptions({ TMPDIR: temporary.path }),
  );
  expect(shown).toContain("5 charges, 0 differences");
});
