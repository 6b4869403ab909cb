import type { RateLimits } from "../../core/rate-limits.ts";

/** Limits of keys and teams. */
interface Limited {
  readonly models: readonly string[] | null;
  readonly limits: RateLimits;
  readonly outputCap: number | null;
}

/** Columns of the limits in `keys` and `teams`. */
export interface LimitColumns extends RateLimits {
  readonly models: string | null;
  readonly output_cap: number | null;
}

export const limitColumnNames = "models, rpm, tpm, parallel, output_cap";

export function limitsOf({ models, rpm, tpm, parallel, output_cap }: LimitColumns): Limited {
  return {
    models: models === null ? null : JSON.parse(models),
    limits: { rpm, tpm, parallel },
    outputCap: output_cap,
  };
}

export function limitColumns({ models, limits: { rpm, tpm, parallel }, outputCap }: Limited) {
  return { models: models && JSON.stringify(models), rpm, tpm, parallel, output_cap: outputCap };
}
