import { hostedToolPolicies, type HostedToolPolicy } from "../core/keys.ts";
import type { RateLimits } from "../core/rate-limits.ts";
import { hostedToolsArgument, modelsArgument, outputCapArgument, rateLimitArgument } from "./arguments.ts";

/** Options of the commands that create a key or a team. */
export const newLimitOptions = limitOptions("all (default: all)", "none (default: none)");

/** Options of the commands that change a key or a team. A missing option changes nothing. */
export const limitChangeOptions = limitOptions("all", "none");

/** Returns options that keys and teams share. The word `none` removes a limit, because commander cannot pass null. */
function limitOptions(all: string, none: string) {
  const limit = (what: string) => ({ value: "<n>", help: `${what}, or ${none}`, parse: rateLimitArgument }) as const;
  return {
    models: {
      value: "<patterns>",
      help: `models that requests may use, such as 'gpt-4o*,o3', or ${all}`,
      parse: modelsArgument,
    },
    rpm: limit("requests in any 60 seconds"),
    tpm: limit("tokens in any 60 seconds"),
    parallel: limit("requests at the same time"),
    outputCap: {
      value: "<n>",
      help: `largest number of output tokens of a request, or ${none}; written into requests that state no maximum`,
      parse: outputCapArgument,
    },
    hostedTools: {
      value: "<policy>",
      help: `hosted tools that nothing bounds, under a hard budget: ${hostedToolPolicies.join(", ")}, or inherit`,
      parse: hostedToolsArgument,
    },
  } as const;
}

type LimitValue = number | "none" | undefined;

/** Converts options to changes of a key or a team. A missing option stays undefined, which changes nothing. */
export function limitChanges({
  models,
  outputCap,
  hostedTools,
  ...limits
}: Readonly<Record<keyof RateLimits | "outputCap", LimitValue>> & {
  readonly models: string[] | "all" | undefined;
  readonly hostedTools: HostedToolPolicy | "inherit" | undefined;
}) {
  const orNull = (limit: LimitValue) => (limit === "none" ? null : limit);
  return {
    models: models === "all" ? null : models,
    limits: { rpm: orNull(limits.rpm), tpm: orNull(limits.tpm), parallel: orNull(limits.parallel) },
    outputCap: orNull(outputCap),
    hostedTools: hostedTools === "inherit" ? null : hostedTools,
  };
}

/** Columns that lists of keys and teams share. */
export const limitColumns = {
  rpm: { cell: ({ limits }: Limited) => limits.rpm, narrow: "drop" },
  tpm: { cell: ({ limits }: Limited) => limits.tpm, narrow: "drop" },
  parallel: { cell: ({ limits }: Limited) => limits.parallel, narrow: "drop" },
  "output cap": { cell: ({ output_cap }: Limited) => output_cap, narrow: "drop" },
  "hosted tools": { cell: ({ hosted_tools }: Limited) => hosted_tools, narrow: "drop" },
} as const;

interface Limited {
  readonly limits: RateLimits;
  readonly output_cap: number | null;
  readonly hosted_tools: HostedToolPolicy | null;
}
