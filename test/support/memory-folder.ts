import { statfsSync } from "node:fs";
import { tmpdir } from "node:os";

/** The memory file system, where it has room; else where temporary files go anyway. */
export function memoryFolder(): string {
  try {
    const { bavail, bsize } = statfsSync("/dev/shm");
    return bavail * bsize > 2 ** 31 ? "/dev/shm" : tmpdir();
  } catch {
    return tmpdir();
  }
}
