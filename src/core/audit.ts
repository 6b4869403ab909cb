import type { Admin } from "./admins.ts";
import { namedScope, type Budget } from "./budget.ts";
import { isoTime, isoTimeOrNull } from "./iso-time.ts";
import type { Key, KeyChange } from "./keys.ts";
import { formatUsd, noMoney, type PicoUsd } from "./money.ts";
import type { RunSession } from "./run-sessions.ts";
import type { Team } from "./teams.ts";

/*
 * The audit: one entry for each change that somebody made to keys, teams, budgets, admins or charges. It is written by the
 * store in the transaction of the change, never changed and never deleted. What an entry shows of a thing is said here, by
 * naming what may be shown: a field that is not named, such as a digest, cannot get in.
 */

export type AuditAction =
  | "keys.create"
  | "keys.update"
  | "keys.rotate"
  | "keys.revoke"
  | "teams.create"
  | "teams.update"
  | "teams.delete"
  | "budgets.set"
  | "budgets.remove"
  | "charges.adjust"
  | "admins.create"
  | "admins.revoke"
  | "proxies.end"
  | "sessions.create";

/** The name under which the operating system's user makes changes from the command line; no admin is called so. */
export function operatingSystemUser(name: string): string {
  return `os:${name}`;
}

/** What JSON can say of a thing. */
export type AuditDetails = Readonly<Record<string, unknown>>;

export interface NewAuditEntry {
  /** Milliseconds since 1970 UTC. */
  readonly at: number;
  /** An admin's name, `os:NAME` for a user of the command line, or `farebox`. */
  readonly by: string;
  readonly action: AuditAction;
  /** What was changed: `key:NAME`, `team:NAME`, `budget:SCOPE/PERIOD`, `charge:ID`, `admin:NAME`, `proxy:NAME`, `session:ID`. */
  readonly object: string;
  /** Null for what was not there before. */
  readonly before: AuditDetails | null;
  /** Null for what is not there any more. */
  readonly after: AuditDetails | null;
}

export interface AuditEntry extends NewAuditEntry {
  /** 1, 2, 3, … in the order of the changes. */
  readonly id: number;
}

/** Whether an entry says that anything is different; a change that changes nothing is none. */
export function changesAnything({ before, after }: NewAuditEntry): boolean {
  return JSON.stringify(before) !== JSON.stringify(after);
}

export function keyObject(key: Pick<Key, "name">): string {
  return `key:${key.name}`;
}

/** What everybody who may see a key may see of it: never its digest. */
export function keyDetails(key: Key) {
  return {
    id: key.id,
    name: key.name,
    team: key.team,
    models: key.models,
    limits: key.limits,
    output_cap: key.outputCap,
    created_at: isoTime(key.createdAt),
    expires_at: isoTimeOrNull(key.expiresAt),
    revoked_at: isoTimeOrNull(key.revokedAt),
    rotated_at: isoTimeOrNull(key.rotatedAt),
    previous_valid_until: isoTimeOrNull(key.previous?.validUntil ?? null),
  };
}

/** What may be seen of an admin: never the digest. */
export function adminDetails(admin: Admin) {
  return {
    id: admin.id,
    name: admin.name,
    role: admin.role,
    created_at: isoTime(admin.createdAt),
    expires_at: isoTimeOrNull(admin.expiresAt),
    revoked_at: isoTimeOrNull(admin.revokedAt),
  };
}

export function adminEntry(
  action: AuditAction,
  before: Admin | null,
  after: Admin,
  made: Pick<NewAuditEntry, "at" | "by">,
): NewAuditEntry {
  return {
    ...made,
    action,
    object: `admin:${after.name}`,
    before: before && adminDetails(before),
    after: adminDetails(after),
  };
}

/** Which action a change of a key is. */
export function keyAction({ secret }: KeyChange): AuditAction {
  return secret === undefined ? "keys.update" : "keys.rotate";
}

export function teamDetails({ name, models, limits, outputCap, createdAt }: Team) {
  return { name, models, limits, output_cap: outputCap, created_at: isoTime(createdAt) };
}

/** The entry of a team; one of `before` and `after` may be null. */
export function teamEntry(
  action: AuditAction,
  before: Team | null,
  after: Team | null,
  made: Pick<NewAuditEntry, "at" | "by">,
): NewAuditEntry {
  const name = (after ?? before)?.name ?? "";
  return {
    ...made,
    action,
    object: `team:${name}`,
    before: before && teamDetails(before),
    after: after && teamDetails(after),
  };
}

/** A budget by its key's name, as it stays readable. */
export function budgetObject({ scope, period }: Pick<Budget, "scope" | "period">, nameOf: NameOfKey): string {
  return `budget:${namedScope(scope, nameOf)}/${period}`;
}

export type NameOfKey = (keyId: string) => string | null | undefined;

/** A budget without what is spent of it. */
export function budgetDetails({ scope, period, mode, limit, warnPercent }: Omit<Budget, "id">, nameOf: NameOfKey) {
  return { scope: namedScope(scope, nameOf), period, mode, limit_usd: formatUsd(limit), warn_percent: warnPercent };
}

/** The entry of a budget that was set: `before` is what it was, undefined where there was none. */
export function budgetSetEntry(
  budget: Omit<Budget, "id">,
  before: Omit<Budget, "id"> | undefined,
  nameOf: NameOfKey,
  made: Pick<NewAuditEntry, "at" | "by">,
): NewAuditEntry {
  return {
    ...made,
    action: "budgets.set",
    object: budgetObject(budget, nameOf),
    before: before === undefined ? null : budgetDetails(before, nameOf),
    after: budgetDetails(budget, nameOf),
  };
}

export function budgetRemoveEntry(
  budget: Omit<Budget, "id">,
  nameOf: NameOfKey,
  made: Pick<NewAuditEntry, "at" | "by">,
): NewAuditEntry {
  return {
    ...made,
    action: "budgets.remove",
    object: budgetObject(budget, nameOf),
    before: budgetDetails(budget, nameOf),
    after: null,
  };
}

export function keyEntry(
  action: AuditAction,
  before: Key | null,
  after: Key,
  made: Pick<NewAuditEntry, "at" | "by">,
): NewAuditEntry {
  return { ...made, action, object: keyObject(after), before: before && keyDetails(before), after: keyDetails(after) };
}

/** The entry of a proxy that was ended by an administrator, with what it held until then. */
export function proxyEndEntry(
  {
    name,
    run,
    state,
    holds,
    held,
  }: {
    readonly name: string;
    readonly run: number;
    readonly state: string;
    readonly holds: number;
    readonly held: PicoUsd;
  },
  made: Pick<NewAuditEntry, "at" | "by">,
): NewAuditEntry {
  return {
    ...made,
    action: "proxies.end",
    object: `proxy:${name}`,
    before: { run, state, holds, held_usd: formatUsd(held) },
    after: { run, state: "ended", holds: 0, held_usd: formatUsd(noMoney) },
  };
}

/** The entry of a session that was begun with the ledger, in place of its key. */
export function sessionEntry(session: RunSession, key: Pick<Key, "name">, by: string): NewAuditEntry {
  const { id, tags, budget, createdAt, expiresAt } = session;
  return {
    at: createdAt,
    by,
    action: "sessions.create",
    object: `session:${id}`,
    before: null,
    after: {
      key: key.name,
      expires_at: isoTime(expiresAt),
      budget_usd: budget === null ? null : formatUsd(budget),
      tags,
    },
  };
}

/** What a charge costs with its corrections, before another one and after it. */
export function correctionEntry(
  charge: string,
  correction: {
    readonly id: string;
    readonly at: number;
    readonly by: string;
    readonly amount: PicoUsd;
    readonly why: string;
  },
  before: PicoUsd | null,
): NewAuditEntry {
  const { id, at, by, amount, why } = correction;
  return {
    at,
    by,
    action: "charges.adjust",
    object: `charge:${charge}`,
    before: { cost_usd: before === null ? null : formatUsd(before) },
    after: {
      cost_usd: formatUsd(((before ?? 0n) + amount) as PicoUsd),
      correction: id,
      amount_usd: formatUsd(amount),
      why,
    },
  };
}
