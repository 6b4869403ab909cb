import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Installs the packages of a folder if the installed ones differ from its lock file. */
export async function installIn(folder: string): Promise<void> {
  const stamp = join(folder, "node_modules/.farebox-lock");
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
  if (installedLock(stamp) === lock) return;
  // None of the packages needs its install script here.
  await run("npm", ["ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"]);
  mkdirSync(join(folder, "node_modules"), { recursive: true });
  writeFileSync(stamp, lock);
}

function installedLock(stamp: string): string | undefined {
  try {
    return readFileSync(stamp, "utf8");
  } catch {
    return undefined;
  }
}

/** Runs a program with this process's output; rejects if the program fails. */
export async function run(program: string, args: readonly string[]): Promise<void> {
  const [code] = await once(spawn(program, args, { stdio: "inherit" }), "close");
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} ended with code ${code}`);
}
