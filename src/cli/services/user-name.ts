import { userInfo } from "node:os";

/**
 * Returns the name of the operating system's user that runs this process. Returns the user's number if there is no name, as in
 * some containers.
 */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}
