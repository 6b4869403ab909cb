import { readFileSync } from "node:fs";
import type { Environment, ReadFile } from "./sources.ts";

/** The process's environment; nothing else in Farebox reads it. */
export function processEnvironment(): Environment {
  return { ...process.env };
}

/** Reads a file of settings or a secret; the code says why it could not. */
export const readTextFile: ReadFile = (path) => {
  try {
    return { ok: true, text: readFileSync(path, "utf8") };
  } catch (error) {
    return { ok: false, code: (error as NodeJS.ErrnoException).code ?? "unreadable" };
  }
};
