import { buffer } from "node:stream/consumers";
import { ask } from "./services/ask.ts";
import { packageVersion, shippedPrices } from "../server/package.ts";
import { userName } from "./services/user-name.ts";
import { startWatching } from "../server/watching.ts";
import { systemClock } from "../platform/clock.ts";
import type { Surroundings } from "./tools.ts";

/** Surroundings of commands in this process. Each service is loaded when a command first uses it. */
export const ownSurroundings: Omit<Surroundings, "io" | "env" | "readFile"> = {
  version: packageVersion(),
  clock: systemClock(),
  userName,
  ask,
  readStdin: () => buffer(process.stdin),
  prices: { shipped: shippedPrices },
  fetchAccount: async (...given) => (await import("../server/account.ts")).readAccountOnce(...given),
  watch: startWatching,
  serve: async (...given) => (await import("../server/serve.ts")).serve(...given),
  runInSession: async (...given) => (await import("./services/run.ts")).runInSession(...given),
};
