import { createHash, randomBytes } from "node:crypto";
import { z } from "zod";
import { isoTime } from "../core/time.ts";
import { isLive, type Key } from "../core/keys.ts";
import { changedLimits, noLimits } from "../core/limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/key-store.ts";
import { limitsSchema, modelsSchema, nameSchema, outputCapSchema } from "./fields.ts";
import { failure, noSuch, parseChange, parseInput, type Failure } from "./result.ts";

export interface KeyTools {
  readonly keys: KeyStore;
  readonly clock: Clock;
  /** Author of the change, for the audit. */
  readonly by: string;
  /** Returns random bytes from a cryptographic source. Defaults to `randomBytes` of node:crypto; tests replace it. */
  readonly random?: (bytes: number) => Uint8Array;
}

/** Longest lifetime of a key or token, in milliseconds: a hundred years. */
export const lifetimeMsMax = 36_500 * 86_400_000;

/**
 * Longest overlap of two secrets, in milliseconds: ninety days. An overlap only serves to switch clients to the new secret.
 */
export const overlapMsMax = 90 * 86_400_000;

/** Lifetime of a key in milliseconds; null if it never expires. */
const lifetimeSchema = z
  .int("must be whole milliseconds")
  .positive("must be longer than nothing")
  .max(lifetimeMsMax, "must be at most 100 years")
  .nullable();

export const newKeySchema = z.strictObject({
  name: nameSchema,
  /** Name of a team. A missing team is created without limits. */
  team: nameSchema.nullable().default(null),
  models: modelsSchema.default(null),
  lifetimeMs: lifetimeSchema.default(null),
  limits: limitsSchema.default({}),
  outputCap: outputCapSchema.default(null),
});

export type NewKey = z.input<typeof newKeySchema>;

/** A key before and after a change. `before` is null for a new key. */
export interface KeyChanged<Before = Key> {
  readonly ok: true;
  readonly before: Before;
  readonly key: Key;
}

export interface CreatedKey extends KeyChanged<null> {
  /** The key, `sk-fb-<id>-<secret>`. It is not stored, so it cannot be shown again. */
  readonly text: string;
}

const base32 = "abcdefghijklmnopqrstuvwxyz234567";
const idLength = 12;
const secretBytes = 32;

/** Creates a key with 256 random bits. Only the digest of its text is stored. */
export async function createKey(tools: KeyTools, input: NewKey): Promise<CreatedKey | Failure> {
  const parsed = parseInput(newKeySchema, input);
  if (!parsed.ok) return parsed;
  const { name, team, models, lifetimeMs, limits, outputCap } = parsed.value;
  const { random = randomBytes } = tools;
  const id = Array.from(random(idLength), (byte) => base32[byte % base32.length]).join("");
  const text = newText(tools, id);
  const createdAt = tools.clock.now();
  const key: Key = {
    id,
    name,
    team,
    digest: digestOfKey(text),
    models,
    limits: changedLimits(noLimits, limits),
    outputCap,
    createdAt,
    expiresAt: lifetimeMs === null ? null : createdAt + lifetimeMs,
    revokedAt: null,
    rotatedAt: null,
    previous: null,
  };
  const creation = await tools.keys.create(key, tools.by);
  if (!creation.ok)
    return failure("name_taken", `there is a key named ${name} already; names are used once, also by revoked keys`);
  return { ok: true, before: null, key, text };
}

function newText({ random = randomBytes }: KeyTools, id: string): string {
  return `sk-fb-${id}-${Buffer.from(random(secretBytes)).toString("base64url")}`;
}

/** Returns the stored form of a key's text: its SHA-256 in lower-case hex. */
export function digestOfKey(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Returns all keys in the order of creation, including revoked ones. */
export function listKeys(keys: KeyStore): Promise<readonly Key[]> {
  return keys.list();
}

export async function showKey(
  keys: KeyStore,
  nameOrId: string,
): Promise<{ readonly ok: true; readonly key: Key } | Failure> {
  const key = await keys.find(nameOrId);
  return key === undefined ? noSuchKey(keys, nameOrId) : { ok: true, key };
}

/** Returns the key as `showKey` does, or undefined if no key was named. */
export async function askedKey(
  keys: KeyStore,
  nameOrId: string | undefined,
): Promise<{ readonly ok: true; readonly key: Key | undefined } | Failure> {
  return nameOrId === undefined ? { ok: true, key: undefined } : showKey(keys, nameOrId);
}

export const keyChangeSchema = z.strictObject({
  team: nameSchema.nullable().optional(),
  models: modelsSchema.optional(),
  lifetimeMs: lifetimeSchema.optional(),
  limits: limitsSchema.optional(),
  outputCap: outputCapSchema.optional(),
});

export type KeyUpdate = z.input<typeof keyChangeSchema>;

/**
 * Changes the given fields of a key. A running proxy applies them to the key's next request. A revoked key cannot be
 * changed.
 */
export async function updateKey(tools: KeyTools, nameOrId: string, input: KeyUpdate): Promise<KeyChanged | Failure> {
  const parsed = parseChange(keyChangeSchema, input);
  if (!parsed.ok) return parsed;
  const key = await tools.keys.find(nameOrId);
  if (key === undefined) return noSuchKey(tools.keys, nameOrId);
  if (key.revokedAt !== null) return revoked(key);
  const { lifetimeMs, ...change } = parsed.value;
  const now = tools.clock.now();
  const expiresAt = lifetimeMs == null ? lifetimeMs : now + lifetimeMs;
  const changed = await tools.keys.update(key.id, { ...change, expiresAt }, now, tools.by);
  return changed === undefined
    ? noSuchKey(tools.keys, nameOrId)
    : { ok: true, before: changed.before, key: changed.after };
}

const overlapShape = "must be whole milliseconds from 0 to 90 days";

export const rotationSchema = z.strictObject({
  /** Time for which the present secret stays valid, in milliseconds. */
  overlapMs: z.int(overlapShape).min(0, overlapShape).max(overlapMsMax, overlapShape).default(86_400_000),
});

export type KeyRotation = z.input<typeof rotationSchema>;

export interface RotatedKey extends KeyChanged {
  /** The key with its new secret. It is not stored, so it cannot be shown again. */
  readonly text: string;
}

/**
 * Gives a key a new secret. The previous secret stays valid until the overlap ends. An older secret whose overlap has not
 * ended becomes invalid at once.
 */
export async function rotateKey(
  tools: KeyTools,
  nameOrId: string,
  input: KeyRotation = {},
): Promise<RotatedKey | Failure> {
  const parsed = parseInput(rotationSchema, input);
  if (!parsed.ok) return parsed;
  const key = await tools.keys.find(nameOrId);
  if (key === undefined) return noSuchKey(tools.keys, nameOrId);
  if (key.revokedAt !== null) return revoked(key);
  const now = tools.clock.now();
  if (!isLive(key, now))
    return failure(
      "refused",
      `${key.name} has expired; farebox keys update ${key.name} --expires 30d makes it valid again`,
    );
  const { overlapMs } = parsed.value;
  const text = newText(tools, key.id);
  const secret = {
    digest: digestOfKey(text),
    madeAt: now,
    previousValidUntil: overlapMs === 0 ? null : now + overlapMs,
  };
  const changed = await tools.keys.update(key.id, { secret }, now, tools.by);
  return changed === undefined
    ? noSuchKey(tools.keys, nameOrId)
    : { ok: true, before: changed.before, key: changed.after, text };
}

export interface RevokedKey extends KeyChanged {
  /** False if the key was already revoked. The time of the first revocation is kept. */
  readonly first: boolean;
}

/** Revokes a key permanently, including both secrets during a rotation. A second call changes nothing. */
export async function revokeKey(tools: KeyTools, nameOrId: string): Promise<RevokedKey | Failure> {
  const key = await tools.keys.find(nameOrId);
  if (key === undefined) return noSuchKey(tools.keys, nameOrId);
  if (key.revokedAt !== null) return { ok: true, before: key, key, first: false };
  const revokedAt = tools.clock.now();
  await tools.keys.revoke(key.id, revokedAt, tools.by);
  return { ok: true, before: key, key: { ...key, revokedAt }, first: true };
}

function revoked({ name, revokedAt }: Key): Failure {
  return failure("refused", `${name} was revoked at ${isoTime(revokedAt ?? 0)} permanently; create a new key`);
}

/** Returns the failure for an unknown key. The message does not repeat the text of a key that was given by mistake. */
async function noSuchKey(keys: KeyStore, nameOrId: string): Promise<Failure> {
  if (nameOrId.startsWith("sk-")) return failure("not_found", "give the key's name or id, not the key itself");
  const names = (await keys.list()).map(({ name }) => name);
  return noSuch("key", nameOrId, names);
}
