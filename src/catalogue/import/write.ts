import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { link, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

type WriteResult =
  | { readonly ok: true; readonly paths: readonly string[] }
  | { readonly ok: false; readonly problem: string };

/** A file to write. `before` is null for a new file. An existing file must still have this text. */
interface FileToWrite {
  readonly path: string;
  readonly before: string | null;
  readonly after: string;
}

/**
 * Writes all price files or none. Each gets a temporary name that no one reads until all are on disk. A new file
 * never replaces an existing one, and a file that someone else has changed in the meantime stays as it is.
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
    // Places new files first, so that a name conflict is found before an existing file changes.
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
    problem: `${path} already exists and stays as it is; remove it, or give another --from-date or --into`,
  };
}

function changedMeanwhile(path: string): WriteResult {
  return { ok: false, problem: `${path} was changed meanwhile and stays as it is; run the import again` };
}

/** Returns false if the path is taken. */
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
