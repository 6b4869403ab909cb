import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { link, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { OrProblem } from "../../core/fault.ts";

type WriteResult = OrProblem<{ paths: readonly string[] }>;

/** File to write. `before`: text that an existing file must still have; null for a new file. */
interface FileToWrite {
  readonly path: string;
  readonly before: string | null;
  readonly after: string;
}

/**
 * Writes price files. Each file is first written under a temporary name. The files are renamed only when all are on
 * disk, so an error before that changes none of them. Fails if the path of a new file is taken, or if the text of an
 * existing file has changed in the meantime.
 */
export async function writeFiles(files: readonly FileToWrite[]): Promise<WriteResult> {
  const unfinished: { readonly temporary: string; readonly file: FileToWrite }[] = [];
  let current = "";
  try {
    for (const file of files) {
      current = file.path;
      const folder = dirname(file.path);
      if (file.before === null) await mkdir(folder, { recursive: true });
      const temporary = join(folder, `.${basename(file.path)}-${randomUUID()}.part`);
      unfinished.push({ temporary, file });
      const mode = file.before === null ? 0o644 : (await stat(file.path)).mode & 0o777;
      await using handle = await open(temporary, "wx", mode);
      await handle.writeFile(file.after);
      await handle.sync();
    }
    for (const { path, before } of files) {
      current = path;
      if (before !== null && (await readFile(path, "utf8")) !== before) return changedMeanwhile(path);
    }
    // Renames new files first, because a name conflict must be found before an existing file changes.
    for (const { temporary, file } of unfinished.toSorted(
      (a, b) => Number(a.file.before !== null) - Number(b.file.before !== null),
    )) {
      current = file.path;
      if (file.before !== null) await rename(temporary, file.path);
      else if (!(await placeNew(temporary, file.path))) return taken(file.path);
    }
    return { ok: true, paths: files.map(({ path }) => path) };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    return { ok: false, problem: `${current} cannot be written (${code})` };
  } finally {
    for (const { temporary } of unfinished) await rm(temporary, { force: true });
  }
}

function taken(path: string): WriteResult {
  return {
    ok: false,
    problem: `${path} already exists and was not replaced; remove it, or give another --from-date or --into`,
  };
}

function changedMeanwhile(path: string): WriteResult {
  return { ok: false, problem: `${path} was changed in the meantime and was not written; run the import again` };
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
