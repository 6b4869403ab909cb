/** Installs the clients of this folder when what is installed is not what the lock file says. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
const stamp = new URL("node_modules/.farebox-lock", import.meta.url);
const lock = readFileSync(new URL("package-lock.json", import.meta.url), "utf8");

if (installedLock() !== lock) {
  // None of them needs its install script here.
  execFileSync("npm", ["ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"], { stdio: "inherit" });
  mkdirSync(new URL(".", stamp), { recursive: true });
  writeFileSync(stamp, lock);
}

function installedLock(): string | undefined {
  try {
    return readFileSync(stamp, "utf8");
  } catch {
    return undefined;
  }
}
