import { execFile, execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, readFile, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { exitOnSignals } from "./program.ts";

export const checkout = fileURLToPath(new URL("..", import.meta.url));

interface Base extends Disposable {
  /** Commit in 40 hex digits. */
  readonly commit: string;
  /** Folder that has the commit's files and its packages. */
  readonly folder: string;
}

/**
 * Checks a commit out into a temporary worktree. Disposal removes it, and so does the end of this process. Throws an error if
 * the revision does not exist.
 *
 * @param against Revision; null for the commit on which this checkout's changes are based
 */
export async function checkOutBase(against: string | null): Promise<Base> {
  const commit = against === null ? await baseOfChange() : await commitOf(against);
  const parent = await mkdtemp(join(tmpdir(), "farebox-bench-"));
  const folder = join(parent, "base");
  const remove = () => {
    rmSync(parent, { recursive: true, force: true });
    execFileSync("git", ["worktree", "prune"], { cwd: checkout });
  };
  using owned = new DisposableStack();
  exitOnSignals();
  process.once("exit", remove);
  owned.defer(() => {
    process.off("exit", remove);
    remove();
  });
  await git("worktree", "add", "--detach", folder, commit);
  const [own, other] = await Promise.all(
    [checkout, folder].map((each) => readFile(join(each, "package-lock.json"), "utf8")),
  );
  if (own === other) await symlink(join(checkout, "node_modules"), join(folder, "node_modules"));
  else await promisify(execFile)("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder });
  const kept = owned.move();
  return { commit, folder, [Symbol.dispose]: () => kept.dispose() };
}

/** Returns the commit at which this checkout left its upstream branch, or else `main`; the last commit if it has not. */
async function baseOfChange(): Promise<string> {
  const head = await commitOf("HEAD");
  const upstream = await commitOf("@{upstream}")
    .catch(() => commitOf("main"))
    .catch(() => head);
  const base = (await git("merge-base", "HEAD", upstream)).trim();
  if (base === head && (await git("status", "--porcelain")) === "")
    throw new Error(`this checkout has no change since ${head.slice(0, 8)}; name an earlier commit with --against REV`);
  return base;
}

async function commitOf(revision: string): Promise<string> {
  try {
    return (await git("rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`)).trim();
  } catch {
    throw new Error(`"${revision}" is not a commit of this repository`);
  }
}

async function git(...args: readonly string[]): Promise<string> {
  return (await promisify(execFile)("git", args, { cwd: checkout })).stdout;
}
