import { existsSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { placeProblem } from "./out-file.ts";

/** New key in the output of `apply --json`. `key` is its text; it is missing if the text went to a file. */
export interface NewKey {
  readonly id: string;
  readonly name: string;
  readonly key?: string;
}

/** Returns the reason why new keys cannot go to this file; null if they can. */
export function keysOutProblem(file: string, ledger: string | null): string | null {
  const problem = placeProblem(file, ledger, "new keys", true);
  if (problem !== null) return problem;
  return existsSync(file) ? `${file} already exists; name a new file for the new keys` : null;
}

export type KeysOut =
  | {
      readonly ok: true;
      /** Resolves once the line is written. */
      write(line: string): Promise<void>;
      close(): Promise<void>;
    }
  | { readonly ok: false; readonly problem: string };

/**
 * Opens the output for new keys, one per line: a new file that only its owner may read. Without a file name, `print` gets the
 * keys.
 */
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
