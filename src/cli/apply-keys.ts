import { existsSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { placeProblem } from "./out-file.ts";

/** A new key in the output of `apply --json`; `key` is its text, unless that went to a file. */
export interface NewKey {
  readonly id: string;
  readonly name: string;
  readonly key?: string;
}

/** The reason why new keys cannot go to a file of this name; null if they can. */
export function keysOutProblem(file: string, ledger: string | null): string | null {
  const problem = placeProblem(file, ledger, "new keys", true);
  if (problem !== null) return problem;
  return existsSync(file) ? `${file} already exists; name a new file for the new keys` : null;
}

export type KeysOut =
  | {
      readonly ok: true;
      /** Resolves when the line is written. */
      write(line: string): Promise<void>;
      close(): Promise<void>;
    }
  | { readonly ok: false; readonly problem: string };

/** Opens the place for new keys, one line each: a new file that only its owner may read, or `print` if none is named. */
export async function keysGoTo(file: string | undefined, print: (line: string) => void): Promise<KeysOut> {
  if (file === undefined) return { ok: true, write: async (line) => print(line), close: async () => {} };
  try {
    const handle = await open(file, "wx", 0o600);
    let isEmpty = true;
    return {
      ok: true,
      async write(line) {
        await handle.appendFile(line);
        isEmpty = false;
      },
      async close() {
        await handle.sync();
        await handle.close();
        if (isEmpty) await rm(file);
      },
    };
  } catch (error) {
    if (error instanceof Error && "syscall" in error)
      return { ok: false, problem: `${file} cannot be written: ${error.message}` };
    throw error;
  }
}
