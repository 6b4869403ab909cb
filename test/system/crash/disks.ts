import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A small disk in memory; needs root. Disposing of it unmounts it. */
export interface SmallDisk extends Disposable {
  readonly path: string;
  /** Fills the disk to the last byte; a second call fills what has become free. */
  fill(): void;
  /** Frees the space that `fill` took. */
  free(): void;
  /**
   * Remounts the disk: read-only, as the kernel does after a failure, or writable. Fails while a file on it is open for
   * writing.
   */
  remount(access: "ro" | "rw"): void;
}

function run(program: string, ...args: readonly string[]): void {
  const { status, error, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${error?.message ?? stderr}`);
}

/** Throws if this user may not mount. */
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

/** Limits the size of the files that a process writes, as a quota does; "unlimited" removes the limit. */
export function limitFileSize(pid: number, bytes: number | "unlimited"): void {
  run("prlimit", "--pid", String(pid), `--fsize=${bytes}:`);
}

/** Makes files immutable even for root and processes that have them open. Needs root and a file system that supports it. */
export function makeImmutable(files: readonly string[]): void {
  run("chattr", "+i", ...files);
}

export function makeMutable(files: readonly string[]): void {
  run("chattr", "-i", ...files);
}

/** Returns why the attempt fails on this machine, or null if it succeeds. It must undo itself. */
export function whyNot(attempt: () => void): string | null {
  try {
    attempt();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}

/** Returns true, and writes to stderr, if a test must be skipped. */
export function skipIfImpossible(what: string, reason: string | null): boolean {
  if (reason !== null) process.stderr.write(`\nSKIPPED: ${what}: ${reason}\n`);
  return reason !== null;
}
