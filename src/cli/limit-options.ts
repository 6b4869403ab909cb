import type { Command } from "commander";
import type { Limits } from "../core/limits.ts";
import { limitArgument, modelsArgument, outputCapArgument } from "./arguments.ts";
import type { TableCell } from "./table.ts";

/** What the options of `addLimitOptions` leave behind. Words stand for null, which commander does not pass on. */
export interface LimitOptions extends Readonly<Partial<Record<keyof Limits, number | "none">>> {
  readonly models?: string[] | "all";
  readonly outputCap?: number | "none";
}

/** The wish in them; what was not given is undefined. */
export function limitWish({ models, rpm, tpm, parallel, outputCap }: LimitOptions) {
  const orNull = (limit: number | "none" | undefined) => (limit === "none" ? null : limit);
  return {
    models: models === "all" ? null : models,
    limits: { rpm: orNull(rpm), tpm: orNull(tpm), parallel: orNull(parallel) },
    outputCap: orNull(outputCap),
  };
}

/** The options that keys and teams have in common. */
export function addLimitOptions(command: Command): Command {
  return command
    .option(
      "--models <patterns>",
      "the models that may be used, such as 'gpt-4o*,o3', or all (default: all)",
      modelsArgument,
    )
    .option("--rpm <n>", "requests in any 60 seconds, or none (default: none)", limitArgument)
    .option("--tpm <n>", "tokens in any 60 seconds, or none (default: none)", limitArgument)
    .option("--parallel <n>", "requests at the same time, or none (default: none)", limitArgument)
    .option(
      "--output-cap <n>",
      "output tokens that a request may ask for, written into those that state none, or none (default: none)",
      outputCapArgument,
    );
}

export const limitTitles = ["rpm", "tpm", "parallel", "output cap"] as const;

export function limitCells({ rpm, tpm, parallel }: Limits, outputCap: number | null): TableCell[] {
  return [rpm, tpm, parallel, outputCap];
}
