import { parseArgs } from "node:util";
import { othersFolder } from "./others.ts";
import { targetNames, type TargetName } from "./targets.ts";
import { workloadNames, type WorkloadName } from "./workloads.ts";

/** Comparison with another commit. */
interface Check {
  /** Revision; null for the commit on which this checkout's changes are based. */
  readonly against: string | null;
}

export interface Options {
  readonly rounds: number;
  /** Requests to one target in one round; null for the default of each workload. */
  readonly requests: number | null;
  /** Duration of a paced stream, in seconds. */
  readonly seconds: number;
  readonly connections: number;
  readonly streams: number;
  /** Number of streams held open while memory is measured. */
  readonly held: number;
  readonly only: readonly WorkloadName[];
  readonly targets: readonly TargetName[];
  /** Folder of the other programs. */
  readonly others: string;
  /** File for the figures as JSON. */
  readonly json: string | null;
  /** Folder for CPU profiles of the proxies under test, one for each thread. */
  readonly profile: string | null;
}

export const usage = `npm run bench -- [options]

  --rounds N        rounds; each round measures every target once (5)
  --requests N      requests to a target in a round (400 to 2000, depending on the workload)
  --seconds S       duration of a paced stream (2)
  --connections N   parallel clients (16)
  --streams N       parallel streams in the paced workload (100)
  --held N          open streams whose memory is measured (500)
  --only A,B        workloads, of ${workloadNames.join(", ")} (all)
  --targets A,B     targets, of ${targetNames.join(", ")} (those that are installed)
  --others DIR      folder in which nginx, Portkey's gateway, LiteLLM, GoModel and Bifrost are installed (bench/.others)
  --json FILE       writes the figures of every round to a file
  --profile DIR     writes CPU profiles of the proxies to a folder

npm run bench -- --check [--against REV]

  Measures this checkout and the commit on which its changes are based, in turns; takes up to 5 minutes. The exit code is 1 if
  the CPU of a workload is more than 15% higher.

  --against REV     another commit to compare with`;

/** Returns the options; "help" if help is requested. Throws an error for invalid options. */
export function readOptions(args: readonly string[]): Options | Check | "help" {
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
      check: { type: "boolean" },
      against: text,
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return "help";
  const { check, against, ...others } = values;
  if (check === true) {
    const [other] = Object.keys(others);
    if (other !== undefined) throw new Error(`--check takes only --against, not --${other}`);
    return { against: against ?? null };
  }
  if (against !== undefined) throw new Error("--against requires --check");
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
  if (!(value > 0 && value < 100_000))
    throw new Error(`--${name} must be a number above 0 and below 100000, not "${text}"`);
  return value;
}

function count(name: string, text: string): number {
  const value = positive(name, text);
  if (!Number.isInteger(value)) throw new Error(`--${name} must be a whole number, not "${text}"`);
  return value;
}

/** Reads a comma-separated list of names. Returns all names if the option is missing. */
export function namesOf<N extends string>(option: string, text: string | undefined, names: readonly N[]): readonly N[] {
  if (text === undefined) return names;
  return text.split(",").map((each) => {
    const found = names.find((name) => name === each);
    if (found === undefined) throw new Error(`--${option} takes ${names.join(", ")}, not "${each}"`);
    return found;
  });
}
