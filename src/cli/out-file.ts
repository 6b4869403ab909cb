import { randomUUID } from "node:crypto";
import { existsSync, realpathSync, rmSync, statSync } from "node:fs";
import { open, rename, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

/**
 * Returns the reason why the file cannot be created; null if it can. `thing` names its content in messages. `ledger` is the
 * path of the ledger; null if the ledger is not a file.
 */
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
    if (error instanceof Error && "syscall" in error) return `${file} cannot be written: ${error.message}`;
    throw error;
  } finally {
    process.off("SIGINT", abandon).off("SIGTERM", abandon);
  }
}

async function writeAll(handle: FileHandle, texts: AsyncIterable<string>): Promise<void> {
  for await (const text of texts) await handle.appendFile(text);
}
