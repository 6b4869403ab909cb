import { parseArgs } from "node:util";
import { workloadNames, type WorkloadName } from "./workloads.ts";

export interface Options {
  readonly rounds: number;
  /** How long one target is measured in one round. */
  readonly seconds: number;
  /** Ends a measurement earlier; null for time alone. */
  readonly requestsMax: number | null;
  readonly connections: number;
  readonly streams: number;
  readonly only: readonly WorkloadName[];
  /** Where the figures go as JSON. */
  readonly json: string | null;
  /** Where the proxies under test leave a CPU profile of each of their threads. */
  readonly profile: string | null;
}

export const usage = `npm run bench -- [options]

  --rounds N        rounds, in each of which every target is measured once (7)
  --seconds S       how long a target is measured in a round (1.5)
  --requests N      ends a measurement after so many requests
  --connections N   clients at once (16)
  --streams N       streams at once in the paced workload (100)
  --only A,B        of ${workloadNames.join(", ")}
  --json FILE       writes every figure of every round
  --profile DIR     leaves CPU profiles of the proxies there`;

/** Throws an error that a person can read. */
export function readOptions(args: readonly string[]): Options | "help" {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: text, seconds: text, requests: text, connections: text, streams: text, only: text, json: text, profile: text,
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return "help";
  return {
    rounds: count("rounds", values.rounds ?? "7"),
    seconds: positive("seconds", values.seconds ?? "1.5"),
    requestsMax: values.requests === undefined ? null : count("requests", values.requests),
    connections: count("connections", values.connections ?? "16"),
    streams: count("streams", values.streams ?? "100"),
    only: values.only === undefined ? workloadNames : values.only.split(",").map(workloadName),
    json: values.json ?? null,
    profile: values.profile ?? null,
  };
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0 && value < 100_000)) throw new Error(`--${name} takes a number above 0, not ${text}`);
  return value;
}

function count(name: string, text: string): number {
  const value = positive(name, text);
  if (!Number.isInteger(value)) throw new Error(`--${name} takes a whole number, not ${text}`);
  return value;
}

function workloadName(text: string): WorkloadName {
  const found = workloadNames.find((name) => name === text);
  if (found === undefined) throw new Error(`--only takes ${workloadNames.join(", ")}, not ${text}`);
  return found;
}
