import { createHash, randomBytes } from "node:crypto";
import { z } from "zod";
import { dayMs, isoTime } from "../core/time.ts";
import { changedKey, isLive, labelsMax, tagsMax, type Key, type KeyChange } from "../core/keys.ts";
import { noRateLimits } from "../core/rate-limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/stores.ts";
import {
  labelsSchema,
  limitsSchema,
  modelsSchema,
  nameSchema,
  hostedToolsOf,
  outputCapSchema,
  pinsSchema,
  requirementsSchema,
  userSchema,
} from "./fields.ts";
import { failure, noSuch, parseChange, parseInput, type Failure } from "./result.ts";

interface KeyTools {
  readonly keys: KeyStore;
  readonly clock: Clock;
  /** Author of the change, for the audit. */
  readonly by: string;
  /** Returns random bytes from a cryptographic source. Defaults to `randomBytes` of node:crypto; tests replace it. */
  readonly random?: (bytes: number) => Uint8Array;
}

/** Longest lifetime of a key or token, in milliseconds: a hundred years. */
export const lifetimeMsMax = 36_500 * dayMs;

/**
 * Longest overlap of two secrets, in milliseconds: ninety days. An overlap only serves to switch clients to the new secret.
 */
export const overlapMsMax = 90 * dayMs;

/** Lifetime of a key in milliseconds; null if it never expires. */
const lifetimeSchema = z
  .int("must be whole milliseconds")
  .positive("must be above 0")
  .max(lifetimeMsMax, "must be at most 100 years")
  .nullable();

export const keyChangeSchema = z.strictObject({
  /** Name of a team. A missing team is created without limits. */
  team: nameSchema.nullable().optional(),
  models: modelsSchema.optional(),
  lifetimeMs: lifetimeSchema.optional(),
  limits: limitsSchema.optional(),
  outputCap: outputCapSchema.optional(),
  hostedTools: hostedToolsOf("must be ").optional(),
  labels: labelsSchema.optional(),
  /** Tags of all requests of the key. */
  tags: pinsSchema.optional(),
  /** User of all requests of the key. */
  user: userSchema.optional(),
  requires: requirementsSchema.optional(),
});

export type KeyUpdate = z.input<typeof keyChangeSchema>;

export const newKeySchema = z.strictObject({ name: nameSchema, ...keyChangeSchema.shape });

export type NewKey = z.input<typeof newKeySchema>;

/** Key that was found, as it is after any change. */
interface KeyChanged {
  readonly ok: true;
  readonly key: Key;
}

export interface CreatedKey extends KeyChanged {
  /** The key, `sk-fb-<id>-<secret>`. It is not stored, so it cannot be shown again. */
  readonly text: string;
}

const base32 = "abcdefghijklmnopqrstuvwxyz234567";
const idLength = 12;
const secretBytes = 32;

/** Creates a key with a secret of 256 random bits. Stores only the digest of the key's text. */
export async function createKey(tools: KeyTools, input: NewKey): Promise<CreatedKey | Failure> {
  const parsed = parseInput(newKeySchema, input);
  if (!parsed.ok) return parsed;
  const { name, lifetimeMs = null, ...settings } = parsed.value;
  const id = randomId(idLength, tools.random);
  const text = newText(tools, id);
  const createdAt = tools.clock.now();
  const blank: Key = {
    id,
    name,
    team: null,
    digest: digestOfKey(text),
    models: null,
    limits: noRateLimits,
    outputCap: null,
    hostedTools: null,
    labels: {},
    tags: {},
    user: null,
    requires: [],
    createdAt,
    expiresAt: lifetimeMs === null ? null : createdAt + lifetimeMs,
    revokedAt: null,
    suspendedAt: null,
    rotatedAt: null,
    previous: null,
  };
  const key = changedKey(blank, settings);
  const creation = await tools.keys.create(key, tools.by);
  if (!creation.ok)
    return failure(
      "name_taken",
      `there is already a key named ${name}; a name cannot be used again, even if its key is revoked`,
    );
  return { ok: true, key, text };
}

/** Returns a random id in base32, with 5 random bits in each character. */
export function randomId(length: number, random: KeyTools["random"] = randomBytes): string {
  return Array.from(random(length), (byte) => base32[byte % base32.length]).join("");
}

function newText({ random = randomBytes }: KeyTools, id: string): string {
  return `sk-fb-${id}-${Buffer.from(random(secretBytes)).toString("base64url")}`;
}

/** Returns the stored form of a key's text: its SHA-256 in lower-case hex. */
export function digestOfKey(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

export async function showKey(keys: KeyStore, nameOrId: string): Promise<KeyChanged | Failure> {
  const key = await keys.find(nameOrId);
  return key === undefined ? noSuchKey(keys, nameOrId) : { ok: true, key };
}

/** Returns the key as `showKey` does, or undefined if no key was named. */
export async function findKeyIfNamed(
  keys: KeyStore,
  nameOrId: string | undefined,
): Promise<{ readonly ok: true; readonly key: Key | undefined } | Failure> {
  return nameOrId === undefined ? { ok: true, key: undefined } : showKey(keys, nameOrId);
}

/**
 * Changes the given fields of a key. A running proxy applies them to the key's next request. A revoked key cannot be
 * changed.
 */
export async function updateKey(tools: KeyTools, nameOrId: string, input: KeyUpdate): Promise<KeyChanged | Failure> {
  const parsed = parseChange(keyChangeSchema, input);
  if (!parsed.ok) return parsed;
  const found = await findUnrevoked(tools, nameOrId);
  if (!found.ok) return found;
  const { key } = found;
  const { lifetimeMs, ...change } = parsed.value;
  const { labels, tags } = changedKey(key, change);
  const [labelCount, tagCount] = [Object.keys(labels).length, Object.keys(tags).length];
  if (labelCount > labelsMax)
    return failure("invalid", `a key may have at most ${labelsMax} labels; ${key.name} would have ${labelCount}`);
  if (tagCount > tagsMax - 1)
    return failure("invalid", `a key may pin at most ${tagsMax - 1} tags; ${key.name} would have ${tagCount}`);
  const now = tools.clock.now();
  const expiresAt = lifetimeMs == null ? lifetimeMs : now + lifetimeMs;
  return write(tools, key, { ...change, expiresAt }, now);
}

const overlapShape = "must be whole milliseconds from 0 to 90 days";

const rotationSchema = z.strictObject({
  /** Time for which the current secret stays valid, in milliseconds. */
  overlapMs: z.int(overlapShape).min(0, overlapShape).max(overlapMsMax, overlapShape).default(dayMs),
});

type KeyRotation = z.input<typeof rotationSchema>;

/**
 * Gives a key a new secret. The previous secret stays valid until the overlap ends. An older secret whose overlap has not
 * ended becomes invalid at once.
 */
export async function rotateKey(
  tools: KeyTools,
  nameOrId: string,
  input: KeyRotation = {},
): Promise<CreatedKey | Failure> {
  const parsed = parseInput(rotationSchema, input);
  if (!parsed.ok) return parsed;
  const found = await findUnrevoked(tools, nameOrId);
  if (!found.ok) return found;
  const { key } = found;
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
  const written = await write(tools, key, { secret }, now);
  return written.ok ? { ...written, text } : written;
}

/** Key after a change that another call may have made earlier. */
interface KeyChangedOnce extends KeyChanged {
  /** False if the key already was in the wanted state. The time of the first change is kept. */
  readonly first: boolean;
}

/** Refuses the key's requests until it is resumed. Running requests finish. A second call changes nothing. */
export function suspendKey(tools: KeyTools, nameOrId: string): Promise<KeyChangedOnce | Failure> {
  return suspendOrResume(tools, nameOrId, true);
}

/** Admits the requests of a suspended key again. A second call changes nothing. */
export function resumeKey(tools: KeyTools, nameOrId: string): Promise<KeyChangedOnce | Failure> {
  return suspendOrResume(tools, nameOrId, false);
}

async function suspendOrResume(
  tools: KeyTools,
  nameOrId: string,
  isSuspended: boolean,
): Promise<KeyChangedOnce | Failure> {
  const found = await findUnrevoked(tools, nameOrId);
  if (!found.ok) return found;
  const { key } = found;
  if ((key.suspendedAt !== null) === isSuspended) return { ok: true, key, first: false };
  const now = tools.clock.now();
  const written = await write(tools, key, { suspendedAt: isSuspended ? now : null }, now);
  return written.ok ? { ...written, first: true } : written;
}

/** Revokes a key permanently, including both secrets during a rotation. A second call changes nothing. */
export async function revokeKey(tools: KeyTools, nameOrId: string): Promise<KeyChangedOnce | Failure> {
  const found = await showKey(tools.keys, nameOrId);
  if (!found.ok) return found;
  const { key } = found;
  if (key.revokedAt !== null) return { ok: true, key, first: false };
  const revokedAt = tools.clock.now();
  await tools.keys.revoke(key.id, revokedAt, tools.by);
  return { ok: true, key: { ...key, revokedAt }, first: true };
}

/** Finds a key. Fails if the key is revoked, because a revoked key cannot be changed. */
async function findUnrevoked({ keys }: KeyTools, nameOrId: string): Promise<KeyChanged | Failure> {
  const found = await showKey(keys, nameOrId);
  if (!found.ok || found.key.revokedAt === null) return found;
  const { name, revokedAt } = found.key;
  return failure("refused", `${name} was revoked permanently at ${isoTime(revokedAt)}; create a new key`);
}

async function write(
  { keys, by }: KeyTools,
  { id, name }: Key,
  change: KeyChange,
  now: number,
): Promise<KeyChanged | Failure> {
  const changed = await keys.update(id, change, now, by);
  return changed === undefined ? noSuchKey(keys, name) : { ok: true, key: changed.after };
}

/** Returns the failure for an unknown key. The message does not repeat the text of a key that was given by mistake. */
async function noSuchKey(keys: KeyStore, nameOrId: string): Promise<Failure> {
  if (nameOrId.startsWith("sk-")) return failure("not_found", "give the key's name or id, not the key itself");
  const names = (await keys.list()).map(({ name }) => name);
  return noSuch("key", nameOrId, names);
}
