import { readFileSync } from "node:fs";
import type { Environment, ReadFile } from "./sources.ts";

/** Returns the process's environment. Farebox reads the environment only here. */
export function processEnvironment(): Environment {
  const env = { ...process.env };
  // Farebox chooses proxies itself. Under NODE_USE_ENV_PROXY, Node would send even its calls to this machine to a proxy.
  if (env["NODE_USE_ENV_PROXY"] !== undefined) process.env["no_proxy"] = "*";
  return env;
}

/** Reads a settings file, or a file that contains a secret. `code` names the reason for a failure. */
export const readTextFile: ReadFile = (path) => {
  try {
    return { ok: true, text: readFileSync(path, "utf8") };
  } catch (error) {
    return { ok: false, code: (error as NodeJS.ErrnoException).code ?? "unreadable" };
  }
};
