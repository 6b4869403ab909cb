import type { Limits } from "../core/limits.ts";
import { limitArgument, modelsArgument, outputCapArgument } from "./arguments.ts";

/** Options that keys and teams share. The word `none` removes a limit, because commander cannot pass null. */
export const limitOptions = {
  models: {
    value: "<patterns>",
    help: "the models that may be used, such as 'gpt-4o*,o3', or all (default: all)",
    parse: modelsArgument,
  },
  rpm: { value: "<n>", help: "requests in any 60 seconds, or none (default: none)", parse: limitArgument },
  tpm: { value: "<n>", help: "tokens in any 60 seconds, or none (default: none)", parse: limitArgument },
  parallel: { value: "<n>", help: "requests at the same time, or none (default: none)", parse: limitArgument },
  outputCap: {
    value: "<n>",
    help: "output tokens that a request may ask for, written into those that state none, or none (default: none)",
    parse: outputCapArgument,
  },
} as const;

type LimitValue = number | "none" | undefined;

/** Returns the changes that these options ask for. A missing option is undefined. */
export function limitChanges({
  models,
  outputCap,
  ...limits
}: Readonly<Record<keyof Limits | "outputCap", LimitValue>> & { readonly models: string[] | "all" | undefined }) {
  const orNull = (limit: LimitValue) => (limit === "none" ? null : limit);
  return {
    models: models === "all" ? null : models,
    limits: { rpm: orNull(limits.rpm), tpm: orNull(limits.tpm), parallel: orNull(limits.parallel) },
    outputCap: orNull(outputCap),
  };
}

/** Columns that lists of keys and teams share. */
export const limitColumns = {
  rpm: ({ limits }: Limited) => limits.rpm,
  tpm: ({ limits }: Limited) => limits.tpm,
  parallel: ({ limits }: Limited) => limits.parallel,
  "output cap": ({ output_cap }: Limited) => output_cap,
} as const;

interface Limited {
  readonly limits: Limits;
  readonly output_cap: number | null;
}
