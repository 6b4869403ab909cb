import { availableParallelism } from "node:os";
import type { Settings } from "../../config/settings.ts";

/** How many processes are to answer requests; `auto` heeds the cores that a container or an affinity leaves. */
export function workerCount({ listen: { workers } }: Pick<Settings, "listen">): number {
  return workers === "auto" ? availableParallelism() : workers;
}
