import { parseArgs } from "node:util";

/** Options of the command line. */
export interface Options {
  /** Range of seeds; null for random seeds. */
  readonly seeds: { readonly first: number; readonly last: number } | null;
  /** Duration of a run with random seeds. */
  readonly seconds: number;
  readonly trace: boolean;
  /** Runs each seed once for every step, with a crash at that step. */
  readonly crashEverywhere: boolean;
  /** Runs each seed with a crash at this step. */
  readonly crashAt: number | null;
  /** Bug to plant; null for none. */
  readonly mutation: string | null;
}

export const usage = `Usage: npm run simulate -- [options]

Runs the proxy's request path with a simulated clock, gateway, clients and disk, and checks its ledger after each run.

  --seed N            run once; the same N gives the same run
  --seeds N-M         run once for each seed from N to M
  --seconds N         run with random seeds for N seconds (the default, with 10)
  --trace             print every step
  --crash-at STEP     crash at this step, in addition to the seed's own events
  --crash-everywhere  run each seed once for each of its steps, with a crash at that step
  --mutation NAME     plant a bug first (simulation/mutations.ts)

Exit codes: 0 no fault was found; 1 a fault was found and is printed with the command that reproduces it; 2 wrong usage.`;

/** Returns the options; null if help is requested. Throws an error for options that cannot be read. */
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
