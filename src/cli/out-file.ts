import { randomUUID } from "node:crypto";
import { existsSync, realpathSync, rmSync, statSync } from "node:fs";
import { open, rename, rm, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { commandFailure, type CommandFailure } from "./io.ts";

/**
 * Returns the reason why the file cannot be created; null if it can. `content` is the word for the file's content in messages.
 * `ledger` is the path of the ledger; null if the ledger is not a file.
 */
export function outFileProblem(file: string, ledger: string | null, content: string, replace: boolean): string | null {
  if (ledger !== null && isSameFile(file, ledger))
    return `${file} is the ledger itself; give the ${content} another name`;
  if (!existsSync(dirname(resolve(file)))) return `there is no folder ${dirname(file)} for the ${content}`;
  if (!existsSync(file)) return null;
  if (!statSync(file).isFile()) return `${file} is not a regular file; name another file for the ${content}`;
  return replace ? null : `${file} already exists; --force replaces it`;
}

export function isSameFile(file: string, path: string): boolean {
  const real = (name: string) => (existsSync(name) ? realpathSync(name) : resolve(name));
  return real(file) === real(path);
}

/**
 * Writes a file completely or not at all, through a temporary file that only the owner may read. Returns the reason for a
 * failure; null on success. A signal during the write removes the temporary file.
 */
export async function writeWhole(file: string, texts: AsyncIterable<string>): Promise<string | null> {
  const unfinished = join(dirname(resolve(file)), `.${basename(file)}-${randomUUID()}.part`);
  const abandon = (signal: NodeJS.Signals) => {
    rmSync(unfinished, { force: true });
    process.off("SIGINT", abandon).off("SIGTERM", abandon).kill(process.pid, signal);
  };
  process.on("SIGINT", abandon).on("SIGTERM", abandon);
  try {
    await using handle = await open(unfinished, "wx", 0o600);
    await writeAll(handle, texts);
    await handle.sync();
    await rename(unfinished, resolve(file));
    return null;
  } catch (error) {
    rmSync(unfinished, { force: true });
    return whyUnwritten(file, error);
  } finally {
    process.off("SIGINT", abandon).off("SIGTERM", abandon);
  }
}

async function writeAll(handle: FileHandle, texts: AsyncIterable<string>): Promise<void> {
  for await (const text of texts) await handle.appendFile(text);
}

/** Returns the reason why a file was not written. Rethrows an error that is not from the file system. */
function whyUnwritten(file: string, error: unknown): string {
  if (error instanceof Error && "syscall" in error) return `${file} cannot be written: ${error.message}`;
  throw error;
}

interface NewFile extends AsyncDisposable {
  readonly ok: true;
  /** Returns the reason why the text could not be written; null on success. */
  write(text: string): Promise<string | null>;
}

/**
 * Creates a file that only its owner can read. Disposing of the result closes the file, and removes it if nothing was
 * written. Returns a failure if the file exists or cannot be created.
 */
export async function openNewFile(file: string): Promise<NewFile | CommandFailure> {
  try {
    const handle = await open(file, "wx", 0o600);
    let isEmpty = true;
    return {
      ok: true,
      async write(text) {
        try {
          await handle.appendFile(text);
          await handle.sync();
        } catch (error) {
          return (error as Error).message;
        }
        isEmpty = false;
        return null;
      },
      async [Symbol.asyncDispose]() {
        await handle.close();
        if (isEmpty) await rm(file);
      },
    };
  } catch (error) {
    return commandFailure(whyUnwritten(file, error));
  }
}
