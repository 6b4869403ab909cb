import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { link, mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { OrProblem } from "../../core/fault.ts";

/**
 * Writes a new price file, whole or not at all: first under a temporary name, which becomes the file's when the text is on
 * disk. Fails if the path is taken.
 */
export async function writeNewFile(path: string, text: string): Promise<OrProblem<object>> {
  const temporary = join(dirname(path), `.${basename(path)}-${randomUUID()}.part`);
  try {
    await mkdir(dirname(path), { recursive: true });
    {
      await using handle = await open(temporary, "wx", 0o644);
      await handle.writeFile(text);
      await handle.sync();
    }
    if (await placeNew(temporary, path)) return { ok: true };
    return {
      ok: false,
      problem: `${path} already exists and was not replaced; remove it, or give another --from-date or --into`,
    };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    return { ok: false, problem: `${path} cannot be written (${code})` };
  } finally {
    await rm(temporary, { force: true }).catch(() => undefined);
  }
}

/** Moves a new file to its path. Returns false if a file already exists there. */
async function placeNew(temporary: string, path: string): Promise<boolean> {
  try {
    await link(temporary, path);
    return true;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (code === "EEXIST") return false;
    // Some file systems have no hard links.
    if (!["EPERM", "ENOTSUP", "ENOSYS"].includes(code)) throw error;
    if (existsSync(path)) return false;
    await rename(temporary, path);
    return true;
  }
}
