import { userInfo } from "node:os";
import { buffer } from "node:stream/consumers";
import { ask, askText } from "./services/ask.ts";
import { packageVersion, shippedPrices } from "../server/package.ts";
import { stayLean } from "../server/runtime.ts";
import { startWatching } from "./services/watching.ts";
import { systemClock } from "../platform/clock.ts";
import type { Surroundings } from "./tools.ts";

/** Surroundings of commands in this process. Large services are loaded when a command first uses them. */
export const processSurroundings: Omit<Surroundings, "io" | "env" | "readFile"> = {
  version: packageVersion(),
  clock: systemClock(),
  userName,
  ask,
  askText,
  readStdin: () => buffer(process.stdin),
  prices: { shipped: shippedPrices },
  fetchAccount: async (...given) => (await import("../server/account.ts")).readAccountOnce(...given),
  watch: startWatching,
  serve: async (...given) => {
    stayLean();
    return (await import("./services/serve.ts")).serve(...given);
  },
  runInSession: async (...given) => (await import("./services/run.ts")).runInSession(...given),
};

/** Returns the name of the system user that runs this process; `uid N` if it has no name, as in some containers. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}
