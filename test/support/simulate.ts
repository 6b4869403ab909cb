import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { cleanEnvironment } from "./farebox-process.ts";
import { compileCache, nodeFlags } from "./node-flags.ts";

const program = fileURLToPath(new URL("../../simulation/run.ts", import.meta.url));

interface Ended {
  readonly code: number;
  readonly output: string;
}

/** Runs `npm run simulate` in a separate process with a clean environment. */
export function simulate(...args: readonly string[]): Promise<Ended> {
  const env = { ...cleanEnvironment(), NODE_COMPILE_CACHE: compileCache };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...nodeFlags, program, ...args],
      { env, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr });
      },
    );
  });
}

/** Seeds that together find every planted bug. */
export const fixedSeeds = "1-700";
