import { parseArgs } from "node:util";

/** Options of the command line. */
export interface Options {
  /** Seeds from the first to the last; null for random ones. */
  readonly seeds: { readonly first: number; readonly last: number } | null;
  /** For how long, where the seeds are random. */
  readonly seconds: number;
  readonly trace: boolean;
  /** Runs each seed once for every step, with a crash at that step. */
  readonly crashEverywhere: boolean;
  /** Runs each seed with a crash at this step. */
  readonly crashAt: number | null;
  /** A bug to plant. */
  readonly mutation: string | null;
}

export const usage = `Usage: npm run simulate -- [options]

Runs the proxy's request path under simulated time, gateway, clients and disk, and checks its books after each run.

  --seed N            one run, which follows from N alone
  --seeds N-M         a run for each
  --seconds N         random seeds for so long (the default, for 10 s)
  --trace             print every step
  --crash-at STEP     crash at this step, whatever else the seed has
  --crash-everywhere  a run for each step of each seed, with a crash at it
  --mutation NAME     plant a bug first (simulation/mutations.ts)

Exit code 0: all is well; 1: a fault was found, with its seed, its step and the way to see it again; 2: wrong usage.`;

/** Null where help is asked for. Throws with one clear sentence for what cannot be read. */
export function readOptions(args: readonly string[]): Options | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: { type: "string" },
      seeds: { type: "string" },
      seconds: { type: "string", default: "10" },
      trace: { type: "boolean", default: false },
      "crash-at": { type: "string" },
      "crash-everywhere": { type: "boolean", default: false },
      mutation: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return null;
  const crashAt = values["crash-at"];
  return {
    seeds:
      values.seed !== undefined
        ? seedsOf(`${values.seed}-${values.seed}`)
        : values.seeds !== undefined
          ? seedsOf(values.seeds)
          : null,
    seconds: wholeNumber(values.seconds, "--seconds"),
    trace: values.trace,
    crashEverywhere: values["crash-everywhere"],
    crashAt: crashAt === undefined ? null : wholeNumber(crashAt, "--crash-at"),
    mutation: values.mutation ?? null,
  };
}

function seedsOf(text: string): { readonly first: number; readonly last: number } {
  const [, first = "", last = ""] = /^(\d+)-(\d+)$/.exec(text) ?? [];
  return { first: wholeNumber(first, "--seed and --seeds"), last: wholeNumber(last, "--seed and --seeds") };
}

function wholeNumber(text: string, of: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new Error(`${of}: write whole numbers, as in --seed 17, --seeds 1-500 or --seconds 30`);
  return Number(text);
}
