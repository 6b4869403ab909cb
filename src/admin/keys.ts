import { createHash, randomBytes } from "node:crypto";
import { z } from "zod";
import type { Key } from "../core/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/key-store.ts";
import { nameSchema } from "./names.ts";
import { failure, parseInput, type Failure } from "./result.ts";

export interface KeyTools {
  readonly keys: KeyStore;
  readonly clock: Clock;
  /** Who makes the change, for the audit. */
  readonly by: string;
  /** Bytes from a cryptographic source; node:crypto's unless a test hands in its own. */
  readonly random?: (bytes: number) => Uint8Array;
}

const patternShape = "must be model names or patterns such as gpt-4o*, without spaces";

/** A hundred years. */
export const lifetimeMsMax = 36_500 * 86_400_000;

const newKeySchema = z.strictObject({
  name: nameSchema,
  team: nameSchema.nullable().default(null),
  /** Wildcard patterns; null for all models. */
  models: z
    .array(z.string().regex(/^[\x21-\x2b\x2d-\x7e]{1,200}$/, patternShape), patternShape)
    .min(1, patternShape)
    .nullable()
    .default(null),
  /** How long it opens anything, in milliseconds from now; null for ever. */
  lifetimeMs: z
    .int("must be whole milliseconds")
    .positive("must be longer than nothing")
    .max(lifetimeMsMax, "must be at most 100 years")
    .nullable()
    .default(null),
});

export type NewKey = z.input<typeof newKeySchema>;

export type CreatedKey = {
  readonly ok: true;
  readonly key: Key;
  /** The key itself, `sk-fb-<id>-<secret>`: it is stored nowhere and cannot be shown again. */
  readonly text: string;
};

const base32 = "abcdefghijklmnopqrstuvwxyz234567";
const idLength = 12;
const secretBytes = 32;

/** What is wrong with a wish for a key, as far as can be told without the store; null for nothing. */
export function newKeyFault(input: NewKey): Failure | null {
  const parsed = parseInput(newKeySchema, input);
  return parsed.ok ? null : parsed;
}

/** Makes a key of 256 random bits; only the digest of its text is stored. */
export async function createKey(tools: KeyTools, input: NewKey): Promise<CreatedKey | Failure> {
  const parsed = parseInput(newKeySchema, input);
  if (!parsed.ok) return parsed;
  const { name, team, models, lifetimeMs } = parsed.value;
  const random = tools.random ?? randomBytes;
  const id = Array.from(random(idLength), (byte) => base32[byte % base32.length]).join("");
  const text = `sk-fb-${id}-${Buffer.from(random(secretBytes)).toString("base64url")}`;
  const createdAt = tools.clock.now();
  const key: Key = {
    id,
    name,
    team,
    digest: digestOfKey(text),
    models,
    createdAt,
    expiresAt: lifetimeMs === null ? null : createdAt + lifetimeMs,
    revokedAt: null,
  };
  const creation = await tools.keys.create(key, tools.by);
  if (!creation.ok) return failure("name_taken", `there is a key named ${name} already; names are used once, also by revoked keys`);
  return { ok: true, key, text };
}

/** What is stored of a key's text: its SHA-256 in lower-case hex. */
export function digestOfKey(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** All keys in the order of creation, revoked ones too. */
export function listKeys(keys: KeyStore): Promise<readonly Key[]> {
  return keys.list();
}

export async function showKey(keys: KeyStore, nameOrId: string): Promise<{ readonly ok: true; readonly key: Key } | Failure> {
  const key = await keys.find(nameOrId);
  return key === undefined ? noSuchKey(nameOrId) : { ok: true, key };
}

export type RevokedKey = {
  readonly ok: true;
  readonly key: Key;
  /** False when it was revoked before: the first instant stays. */
  readonly first: boolean;
};

/** Closes a key for good. Repeating it changes nothing. */
export async function revokeKey(tools: KeyTools, nameOrId: string): Promise<RevokedKey | Failure> {
  const key = await tools.keys.find(nameOrId);
  if (key === undefined) return noSuchKey(nameOrId);
  if (key.revokedAt !== null) return { ok: true, key, first: false };
  const revokedAt = tools.clock.now();
  await tools.keys.revoke(key.id, revokedAt, tools.by);
  return { ok: true, key: { ...key, revokedAt }, first: true };
}

/** The failure for a key that is not there. A whole key, given by mistake, is not repeated. */
export function noSuchKey(nameOrId: string): Failure {
  if (nameOrId.startsWith("sk-")) return failure("not_found", "give the key's name or id, not the key itself");
  return failure("not_found", `there is no key ${JSON.stringify(nameOrId)}`);
}
