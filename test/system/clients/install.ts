import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installIn, run } from "../../support/install-in.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Installs the clients of this folder; `all` includes those of `npm run test:clients -- --all`. */
export async function installClients({ all }: { readonly all: boolean }): Promise<void> {
  const folders = [here, ...(all ? [join(here, "all")] : [])];
  const lists = ["default", ...(all ? ["aider", "agents"] : [])];
  await Promise.all([
    ...folders.map((folder) => withRetry(() => installIn(folder))),
    ...lists.map((name) => withRetry(() => installPython(name))),
  ]);
}

/** Installs the packages of a file in `python/` in a separate virtual environment, unless it is up to date. */
async function installPython(name: string): Promise<void> {
  const folder = join(here, ".python", name);
  const stamp = join(folder, ".farebox-packages");
  const packages = join(here, "python", `${name}.txt`);
  const wanted = readFileSync(packages, "utf8");
  if (textOf(stamp) === wanted) return;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await run("python3", ["-m", "venv", folder]);
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"];
  await run(join(folder, "bin/python"), [...pip, "-r", packages]);
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
async function withRetry(install: () => Promise<void>): Promise<void> {
  try {
    await install();
  } catch {
    await install();
  }
}
