import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installIn } from "../../support/install-in.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Installs the clients of this folder; `all` includes those of `npm run test:clients -- --all`. */
export function installClients({ all }: { readonly all: boolean }): void {
  withRetry(() => installIn(here));
  if (all) withRetry(() => installIn(join(here, "all")));
  for (const name of ["default", ...(all ? ["aider", "agents"] : [])]) withRetry(() => installPython(name));
}

/** Installs the packages of a file in `python/` in a separate virtual environment, unless it is up to date. */
function installPython(name: string): void {
  const folder = join(here, ".python", name);
  const stamp = join(folder, ".farebox-packages");
  const packages = join(here, "python", `${name}.txt`);
  const wanted = readFileSync(packages, "utf8");
  if (textOf(stamp) === wanted) return;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  execFileSync("python3", ["-m", "venv", folder], { stdio: "inherit" });
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"];
  execFileSync(join(folder, "bin/python"), [...pip, "-r", packages], { stdio: "inherit" });
  writeFileSync(stamp, wanted);
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** Retries once, because a registry may fail for a moment. */
function withRetry(install: () => void): void {
  try {
    install();
  } catch {
    install();
  }
}
