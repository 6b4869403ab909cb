import type { Admin, Key, KeyChange, RunSession, Team } from "./keys.ts";
import type { RequestedRaise } from "./alerts.ts";
import type { Budget, Raise } from "./budget.ts";
import { hasSubjects, namedScope, namedSubject } from "./scope.ts";
import { isoTime, isoTimeOrNull } from "./time.ts";
import { formatUsd, noMoney, type PicoUsd } from "./money.ts";

/**
 * Each change to keys, teams, budgets, admins or charges has an entry in the audit log. The store writes the entry in
 * the transaction of the change, and never changes or deletes it. An entry contains only the fields named in this file,
 * so that it cannot expose a digest.
 */

type AuditAction =
  | "keys.create"
  | "keys.update"
  | "keys.rotate"
  | "keys.suspend"
  | "keys.resume"
  | "keys.revoke"
  | "teams.create"
  | "teams.update"
  | "teams.remove"
  | "budgets.set"
  | "budgets.remove"
  | "budgets.raise"
  | "raises.deny"
  | "charges.adjust"
  | "admins.create"
  | "admins.revoke"
  | "proxies.end"
  | "sessions.create";

/**
 * Returns the name in the audit log for a user of the operating system who makes a change from the command line. No
 * admin can have this name.
 */
export function operatingSystemUser(name: string): string {
  return `os:${name}`;
}

/** Fields of an object that an entry shows, as JSON. */
export type AuditDetails = Readonly<Record<string, unknown>>;

export interface NewAuditEntry {
  /** Milliseconds since 1970 UTC. */
  readonly at: number;
  /** An admin's name, `env` for `FAREBOX_ADMIN_TOKEN`, `os:NAME` for a user of the command line, or `farebox`. */
  readonly by: string;
  readonly action: AuditAction;
  /**
   * The changed object: `key:NAME`, `team:NAME`, `budget:SCOPE/PERIOD`, `charge:ID`, `admin:NAME`, `proxy:NAME` or
   * `session:ID`.
   */
  readonly object: string;
  /** Null for an object that did not exist before. */
  readonly before: AuditDetails | null;
  /** Null for an object that no longer exists. */
  readonly after: AuditDetails | null;
}

/** Time and author of a change. */
type Author = Pick<NewAuditEntry, "at" | "by">;

export interface AuditEntry extends NewAuditEntry {
  /** 1, 2, 3, … in the order of the changes. */
  readonly id: number;
}

/** Returns true if `before` and `after` differ. Entries without a difference are not recorded. */
export function changesAnything({ before, after }: NewAuditEntry): boolean {
  return JSON.stringify(before) !== JSON.stringify(after);
}

export function keyObject(key: Pick<Key, "name">): string {
  return `key:${key.name}`;
}

/** Returns the fields of a key that may be shown, without its digests. */
export function keyDetails(key: Key) {
  return {
    id: key.id,
    name: key.name,
    team: key.team,
    models: key.models,
    limits: key.limits,
    output_cap: key.outputCap,
    hosted_tools: key.hostedTools,
    labels: key.labels,
    tags: key.tags,
    user: key.user,
    requires: key.requires,
    created_at: isoTime(key.createdAt),
    expires_at: isoTimeOrNull(key.expiresAt),
    revoked_at: isoTimeOrNull(key.revokedAt),
    suspended_at: isoTimeOrNull(key.suspendedAt),
    rotated_at: isoTimeOrNull(key.rotatedAt),
    previous_valid_until: isoTimeOrNull(key.previous?.validUntil ?? null),
  };
}

/** Returns the fields of an admin that may be shown, without its digest. */
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

export function adminEntry(action: AuditAction, before: Admin | null, after: Admin, change: Author): NewAuditEntry {
  return {
    ...change,
    action,
    object: `admin:${after.name}`,
    before: before && adminDetails(before),
    after: adminDetails(after),
  };
}

/** Returns the audit action of a change to a key. */
export function keyAction({ secret, suspendedAt }: KeyChange): AuditAction {
  if (suspendedAt !== undefined) return suspendedAt === null ? "keys.resume" : "keys.suspend";
  return secret === undefined ? "keys.update" : "keys.rotate";
}

export function teamDetails({ name, models, limits, outputCap, hostedTools, createdAt }: Team) {
  return { name, models, limits, output_cap: outputCap, hosted_tools: hostedTools, created_at: isoTime(createdAt) };
}

/** Returns the audit entry for a change to a team; `before` or `after` may be null. */
export function teamEntry(action: AuditAction, before: Team | null, after: Team | null, change: Author): NewAuditEntry {
  const name = (after ?? before)?.name ?? "";
  return {
    ...change,
    action,
    object: `team:${name}`,
    before: before && teamDetails(before),
    after: after && teamDetails(after),
  };
}

/** Returns the object name of a budget. It contains the key's name instead of its id, to stay readable. */
export function budgetObject({ scope, period }: Pick<Budget, "scope" | "period">, nameOf: NameOfKey): string {
  return `budget:${namedScope(scope, nameOf)}/${period}`;
}

export type NameOfKey = (keyId: string) => string | null | undefined;

/** Returns the fields of a budget that an entry shows, without its spending. */
export function budgetDetails({ scope, period, mode, limit, warnPercent }: Omit<Budget, "id">, nameOf: NameOfKey) {
  return { scope: namedScope(scope, nameOf), period, mode, limit_usd: formatUsd(limit), warn_percent: warnPercent };
}

/** Returns the audit entry for a budget that was set. `before` is undefined for a new budget. */
export function budgetSetEntry(
  budget: Omit<Budget, "id">,
  before: Omit<Budget, "id"> | undefined,
  nameOf: NameOfKey,
  change: Author,
): NewAuditEntry {
  return {
    ...change,
    action: "budgets.set",
    object: budgetObject(budget, nameOf),
    before: before === undefined ? null : budgetDetails(before, nameOf),
    after: budgetDetails(budget, nameOf),
  };
}

export function budgetRemoveEntry(budget: Omit<Budget, "id">, nameOf: NameOfKey, change: Author): NewAuditEntry {
  return {
    ...change,
    action: "budgets.remove",
    object: budgetObject(budget, nameOf),
    before: budgetDetails(budget, nameOf),
    after: null,
  };
}

export function budgetRaiseEntry(
  budget: Omit<Budget, "id">,
  raise: Raise & { readonly subject: string; readonly why: string },
  nameOf: NameOfKey,
  change: Author,
): NewAuditEntry {
  const { subject, amount, from, until, why } = raise;
  return {
    ...change,
    action: "budgets.raise",
    object: budgetObject(budget, nameOf),
    before: null,
    after: {
      ...budgetDetails(budget, nameOf),
      ...(hasSubjects(budget.scope) && { subject: namedSubject(budget.scope, subject, nameOf) }),
      amount_usd: formatUsd(amount),
      starts_at: isoTime(from),
      until: isoTimeOrNull(until),
      why,
    },
  };
}

/** Returns the audit entry for a request for a raise that was denied. */
export function raiseDenyEntry(
  request: Pick<RequestedRaise, "id" | "budget" | "subject" | "amount" | "why">,
  nameOf: NameOfKey,
  change: Author,
): NewAuditEntry {
  const { id, budget, subject, amount, why } = request;
  const asked = {
    request: id,
    ...(hasSubjects(budget.scope) && { subject: namedSubject(budget.scope, subject, nameOf) }),
    amount_usd: formatUsd(amount),
    why,
  };
  return {
    ...change,
    action: "raises.deny",
    object: budgetObject(budget, nameOf),
    before: { ...asked, state: "open" },
    after: { ...asked, state: "denied" },
  };
}

export function keyEntry(action: AuditAction, before: Key | null, after: Key, change: Author): NewAuditEntry {
  return {
    ...change,
    action,
    object: keyObject(after),
    before: before && keyDetails(before),
    after: keyDetails(after),
  };
}

interface EndedProxy {
  readonly name: string;
  readonly run: number;
  readonly state: string;
  readonly holds: number;
  readonly held: PicoUsd;
}

/** Returns the audit entry for a proxy that an administrator ended, with its holds at that time. */
export function proxyEndEntry({ name, run, state, holds, held }: EndedProxy, change: Author): NewAuditEntry {
  return {
    ...change,
    action: "proxies.end",
    object: `proxy:${name}`,
    before: { run, state, holds, held_usd: formatUsd(held) },
    after: { run, state: "ended", holds: 0, held_usd: formatUsd(noMoney) },
  };
}

/** Returns the audit entry for a session that a person with access to the ledger created without the key's secret. */
export function sessionEntry(session: Omit<RunSession, "secret">, key: Pick<Key, "name">, by: string): NewAuditEntry {
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

/** Returns the audit entry for a correction. `before` is the charge's cost with all earlier corrections. */
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
