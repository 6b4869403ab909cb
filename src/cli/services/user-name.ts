import { userInfo } from "node:os";

/** The operating system's user that runs this process; its number where it has no name, as in a container. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}
