import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Installs the packages of a folder if the installed ones differ from its lock file. */
export function installIn(folder: string): void {
  const stamp = join(folder, "node_modules/.farebox-lock");
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
  if (installedLock(stamp) === lock) return;
  // None of the packages needs its install script here.
  execFileSync("npm", ["ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"], { stdio: "inherit" });
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
