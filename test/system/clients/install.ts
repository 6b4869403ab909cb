import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installIn } from "../../support/install-in.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Installs the clients of this folder; `all`: those that run only when asked for, too. */
export function installClients({ all }: { readonly all: boolean }): void {
  twice(() => installIn(here));
  if (all) twice(() => installIn(join(here, "all")));
  for (const name of ["default", ...(all ? ["aider", "agents"] : [])]) twice(() => installPython(name));
}

/** Installs the packages of a file in `python/` in a virtual environment of their own, when what is installed is not what it says. */
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

/** A registry may fail for a moment. */
function twice(install: () => void): void {
  try {
    install();
  } catch {
    install();
  }
}
