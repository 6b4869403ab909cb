import { parseArgs } from "node:util";
import { othersFolder } from "./others.ts";
import { targetNames, type TargetName } from "./targets.ts";
import { workloadNames, type WorkloadName } from "./workloads.ts";

export interface Options {
  readonly rounds: number;
  /** Requests to one target in one round; null for what each workload says. */
  readonly requests: number | null;
  /** Duration of a paced stream. */
  readonly seconds: number;
  readonly connections: number;
  readonly streams: number;
  /** Streams held open while their memory is looked at. */
  readonly held: number;
  readonly only: readonly WorkloadName[];
  readonly targets: readonly TargetName[];
  /** Folder of the other programs. */
  readonly others: string;
  /** File for the figures as JSON. */
  readonly json: string | null;
  /** Folder for a CPU profile of each thread of the proxies under test. */
  readonly profile: string | null;
}

export const usage = `npm run bench -- [options]

  --rounds N        rounds, in each of which every target is measured once (5)
  --requests N      requests to a target in a round (by workload, 400 to 2000)
  --seconds S       how long a paced stream runs (2)
  --connections N   clients at once (16)
  --streams N       streams at once in the paced workload (100)
  --held N          streams at once whose memory is looked at (500)
  --only A,B        of ${workloadNames.join(", ")}
  --targets A,B     of ${targetNames.join(", ")} (those that are there)
  --others DIR      where nginx, Portkey's gateway and LiteLLM are installed (bench/.others)
  --json FILE       writes every figure of every round
  --profile DIR     leaves CPU profiles of the proxies there`;

/** Throws an error that a person can read. */
export function readOptions(args: readonly string[]): Options | "help" {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: text,
      seconds: text,
      requests: text,
      connections: text,
      streams: text,
      held: text,
      only: text,
      targets: text,
      others: text,
      json: text,
      profile: text,
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return "help";
  return {
    rounds: count("rounds", values.rounds ?? "5"),
    requests: values.requests === undefined ? null : count("requests", values.requests),
    seconds: positive("seconds", values.seconds ?? "2"),
    connections: count("connections", values.connections ?? "16"),
    streams: count("streams", values.streams ?? "100"),
    held: count("held", values.held ?? "500"),
    only: namesOf("only", values.only, workloadNames),
    targets: namesOf("targets", values.targets, targetNames),
    others: values.others ?? othersFolder,
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

/** Reads a list with commas; all names where none is given. */
function namesOf<N extends string>(option: string, text: string | undefined, names: readonly N[]): readonly N[] {
  if (text === undefined) return names;
  return text.split(",").map((each) => {
    const found = names.find((name) => name === each);
    if (found === undefined) throw new Error(`--${option} takes ${names.join(", ")}, not ${each}`);
    return found;
  });
}
