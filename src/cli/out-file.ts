import { randomUUID } from "node:crypto";
import { existsSync, realpathSync, rmSync, statSync } from "node:fs";
import { open, rename, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

/** Returns the reason why a new file cannot go there; null if it can. `thing` is what it would be, `ledger` the path of the ledger, null where it is no file. */
export function placeProblem(file: string, ledger: string | null, thing: string, replace: boolean): string | null {
  if (ledger !== null && isSame(file, ledger)) return `${file} is the ledger itself; give the ${thing} another name`;
  if (!existsSync(dirname(resolve(file)))) return `there is no folder ${dirname(file)} for the ${thing}`;
  if (!existsSync(file)) return null;
  if (!statSync(file).isFile()) return `${file} is not a file; name one for the ${thing}`;
  return replace ? null : `${file} already exists; --force replaces it`;
}

export function isSame(file: string, path: string): boolean {
  const real = (name: string) => (existsSync(name) ? realpathSync(name) : resolve(name));
  return real(file) === real(path);
}

/**
 * Writes a file that only its owner may read, whole or not at all: it has another name until it is on the disk. Answers why
 * it could not be written, null when it was. A signal in between takes it away.
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
    if (error instanceof Error && "syscall" in error) return `${file} cannot be written: ${error.message}`;
    throw error;
  } finally {
    process.off("SIGINT", abandon).off("SIGTERM", abandon);
  }
}

async function writeAll(handle: FileHandle, texts: AsyncIterable<string>): Promise<void> {
  for await (const text of texts) await handle.appendFile(text);
}
