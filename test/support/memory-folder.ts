import { statfsSync } from "node:fs";
import { tmpdir } from "node:os";

/** Returns the memory file system if it has room, otherwise the folder for temporary files. */
export function memoryFolder(): string {
  try {
    const { bavail, bsize } = statfsSync("/dev/shm");
    return bavail * bsize > 2 ** 31 ? "/dev/shm" : tmpdir();
  } catch {
    return tmpdir();
  }
}
