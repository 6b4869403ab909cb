import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A disk of its own in memory; needs root. Disposing of it takes it away. */
export interface SmallDisk extends Disposable {
  readonly path: string;
  /** Leaves not a byte; again, takes what has become free since. */
  fill(): void;
  /** Gives the space back that `fill` took. */
  free(): void;
  /** Remounts the disk as the kernel does when it has failed. Refused while a file on it is open for writing. */
  remount(access: "ro" | "rw"): void;
}

function run(program: string, ...args: readonly string[]): void {
  const { status, error, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${error?.message ?? stderr}`);
}

/** Throws where this user may not mount. */
export function mountSmallDisk(bytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), "farebox-disk-"));
  try {
    run("mount", "-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", path);
  } catch (error) {
    rmdirSync(path);
    throw error;
  }
  const filler = join(path, "filler");
  return {
    path,
    fill() {
      const page = Buffer.alloc(4096);
      const file = openSync(filler, "a");
      try {
        for (;;) writeSync(file, page);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler),
    remount: (access) => run("mount", "-o", `remount,${access}`, path),
    [Symbol.dispose]() {
      run("umount", "--lazy", path);
      rmdirSync(path);
    },
  };
}

/** No file that the process writes may grow beyond so many bytes; "unlimited" ends that. What a quota does. */
export function limitFileSize(pid: number, bytes: number | "unlimited"): void {
  run("prlimit", "--pid", String(pid), `--fsize=${bytes}:`);
}

/** Makes the files immutable even for root and for processes that have them open; on file systems that support it, and as root. */
export function makeImmutable(files: readonly string[]): void {
  run("chattr", "+i", ...files);
}

export function makeMutable(files: readonly string[]): void {
  run("chattr", "-i", ...files);
}

/** Why this machine cannot do it; null where it can. What it does is undone. */
export function whyNot(attempt: () => void): string | null {
  try {
    attempt();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}

/** True if a test is to be skipped, which is said loudly. Where all ways to see a thing are out, and skipping is forbidden, it throws. */
export function skipIfImpossible(what: string, reason: string | null): boolean {
  if (reason !== null) process.stderr.write(`\nSKIPPED: ${what}: ${reason}\n`);
  return reason !== null;
}
