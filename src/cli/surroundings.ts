import { buffer } from "node:stream/consumers";
import { ask } from "../app/ask.ts";
import { packageVersion, shippedPrices } from "../app/package.ts";
import { userName } from "../app/user-name.ts";
import { startWatching } from "../app/watching.ts";
import { systemClock } from "../time/clock.ts";
import type { Surroundings } from "./tools.ts";

/** The surroundings of commands in this process. A service is loaded when a command first uses it. */
export const ownSurroundings: Omit<Surroundings, "io" | "env" | "readFile"> = {
  version: packageVersion(),
  clock: systemClock(),
  userName,
  ask,
  readStdin: () => buffer(process.stdin),
  prices: { shipped: shippedPrices },
  fetchAccount: async (...given) => (await import("../app/account.ts")).readAccountOnce(...given),
  watch: startWatching,
  serve: async (...given) => (await import("../app/serve.ts")).serve(...given),
  runInSession: async (...given) => (await import("../app/run.ts")).runInSession(...given),
};
