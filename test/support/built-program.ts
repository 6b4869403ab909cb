import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { nodeFlags } from "./node-flags.ts";

/*
 * With TEST_BUILD=1, tests that start processes use a program that is built once, like the packaged one, and
 * starts in two thirds of the time. Otherwise they start the checkout, which needs no build.
 */

const checkout = fileURLToPath(new URL("../../", import.meta.url));

/** Files of a checkout that `npm pack` reads. Other files are not copied, so that a program that needs them fails. */
const packed = [
  "package.json",
  "package-lock.json",
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

/** Copies the sources of the package into an empty folder. */
export async function copyPacked(folder: string): Promise<void> {
  for (const name of packed) await cp(join(checkout, name), join(folder, name), { recursive: true });
  await symlink(join(checkout, "node_modules"), join(folder, "node_modules"));
}

const variable = "FAREBOX_TEST_PROGRAM";

/** Path of the built program, or null if tests start the checkout. */
export const builtProgram = process.env[variable] ?? null;

/** Builds the program. Vitest calls this before the tests of a project, and the returned function after them. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env["TEST_BUILD"] !== "1" || process.env[variable] !== undefined) return undefined;
  const folder = await mkdtemp(join(tmpdir(), "farebox-built-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    await copyPacked(folder);
    await promisify(execFile)(process.execPath, [...nodeFlags, join(folder, "scripts/build.ts")], { cwd: folder });
    // Next to its sources, the program would run them.
    await rm(join(folder, "src"), { recursive: true });
  } catch (error) {
    await remove();
    throw error;
  }
  process.env[variable] = join(folder, "bin/farebox.mjs");
  return remove;
}
