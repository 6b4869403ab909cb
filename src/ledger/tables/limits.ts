import type { HostedToolPolicy } from "../../core/keys.ts";
import type { RateLimits } from "../../core/rate-limits.ts";

/** Limits of keys and teams. */
interface Limited {
  readonly models: readonly string[] | null;
  readonly limits: RateLimits;
  readonly outputCap: number | null;
  readonly hostedTools: HostedToolPolicy | null;
}

/** Columns of the limits in `keys` and `teams`. */
export interface LimitColumns extends RateLimits {
  readonly models: string | null;
  readonly output_cap: number | null;
  readonly hosted_tools: HostedToolPolicy | null;
}

export const limitColumnNames = "models, rpm, tpm, parallel, output_cap, hosted_tools";

export function limitsOf({ models, rpm, tpm, parallel, output_cap, hosted_tools }: LimitColumns): Limited {
  return {
    models: models === null ? null : JSON.parse(models),
    limits: { rpm, tpm, parallel },
    outputCap: output_cap,
    hostedTools: hosted_tools,
  };
}

export function limitColumns({ models, limits: { rpm, tpm, parallel }, outputCap, hostedTools }: Limited) {
  const list = models && JSON.stringify(models);
  return { models: list, rpm, tpm, parallel, output_cap: outputCap, hosted_tools: hostedTools };
}
