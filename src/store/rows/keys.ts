import type { Admin, AdminRole } from "../../core/admins.ts";
import type { Key } from "../../core/keys.ts";
import type { Limits } from "../../core/limits.ts";
import type { Team } from "../../core/teams.ts";

/** A row of `keys`; times fit a number. */
export interface KeyRow extends Limits {
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
  readonly digest: string;
  readonly models: string | null;
  readonly output_cap: number | null;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at: number | null;
  readonly rotated_at: number | null;
  readonly previous_digest: string | null;
  readonly previous_valid_until: number | null;
}

export function keyOf(row: KeyRow): Key {
  return {
    id: row.id,
    name: row.name,
    team: row.team,
    digest: row.digest,
    models: modelsOf(row),
    limits: limitsOf(row),
    outputCap: row.output_cap,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    rotatedAt: row.rotated_at,
    previous:
      row.previous_digest === null || row.previous_valid_until === null
        ? null
        : { digest: row.previous_digest, validUntil: row.previous_valid_until },
  };
}

/** What a change of a key may touch: the values of team, digest, models, rpm, tpm, parallel, output_cap, expires_at, rotated_at, previous_digest and previous_valid_until. */
export function keyColumns({
  team,
  digest,
  models,
  limits,
  outputCap,
  expiresAt,
  rotatedAt,
  previous,
}: Key): readonly unknown[] {
  return [
    team,
    digest,
    modelsText(models),
    limits.rpm,
    limits.tpm,
    limits.parallel,
    outputCap,
    expiresAt,
    rotatedAt,
    previous?.digest ?? null,
    previous?.validUntil ?? null,
  ];
}

/** A row of `teams`; times fit a number. */
export interface TeamRow extends Limits {
  readonly name: string;
  readonly models: string | null;
  readonly output_cap: number | null;
  readonly created_at: number;
}

export function teamOf(row: TeamRow): Team {
  return {
    name: row.name,
    models: modelsOf(row),
    limits: limitsOf(row),
    outputCap: row.output_cap,
    createdAt: row.created_at,
  };
}

/** As it is stored, of keys too. */
export function modelsText(models: readonly string[] | null): string | null {
  return models === null ? null : JSON.stringify(models);
}

function modelsOf({ models }: { readonly models: string | null }): readonly string[] | null {
  return models === null ? null : JSON.parse(models);
}

function limitsOf({ rpm, tpm, parallel }: Limits): Limits {
  return { rpm, tpm, parallel };
}

/** A row of `admins`; times fit a number. */
export interface AdminRow {
  readonly id: string;
  readonly name: string;
  readonly role: AdminRole;
  readonly digest: string;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at: number | null;
}

export function adminOf({ id, name, role, digest, created_at, expires_at, revoked_at }: AdminRow): Admin {
  return { id, name, role, digest, createdAt: created_at, expiresAt: expires_at, revokedAt: revoked_at };
}
