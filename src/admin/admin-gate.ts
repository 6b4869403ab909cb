import { createHash, timingSafeEqual } from "node:crypto";
import { isLive, settingsAdmin, type Admin, type AdminFailure, type AdminRole } from "../core/keys.ts";
import type { AdminStore } from "../ports/stores.ts";
import type { Clock } from "../ports/clock.ts";
import { FailedAttempts } from "./failed-attempts.ts";

/** Caller of the admin API. */
export interface AdminCaller {
  /** Name in the audit: an admin's name, or `env` for the bearer of `FAREBOX_ADMIN_TOKEN`. */
  readonly name: string;
  readonly role: AdminRole;
  /** Time when the caller's token expires, in milliseconds since 1970 UTC; null if it never does. */
  readonly expiresAt: number | null;
}

/** Credential of an admin, as a session stores it. */
export interface AdminCredential {
  /** The admin's id; null for `FAREBOX_ADMIN_TOKEN`. */
  readonly id: string | null;
  /** SHA-256 of the token. */
  readonly digest: Buffer;
}

export type Admission =
  | { readonly ok: true; readonly caller: AdminCaller; readonly credential: AdminCredential }
  /**
   * `message` is one sentence for a person. It never contains any part of the token. `retryAfterSeconds` is null unless
   * too many other attempts were waiting.
   */
  | {
      readonly ok: false;
      readonly why: AdminFailure;
      readonly message: string;
      readonly retryAfterSeconds: number | null;
    };

export interface AdminGate {
  /** Checks the `Authorization` header of a request from this address. */
  admit(authorization: string | undefined, address: string): Promise<Admission>;
  /** Reads the caller of an accepted credential again. Returns undefined if the token is no longer valid. */
  currentCaller(credential: AdminCredential): Promise<AdminCaller | undefined>;
}

/** `sk-fba-<id>-<secret>` */
const tokenPattern = /^sk-fba-([a-z0-9]{1,32})-[A-Za-z0-9_-]{20,128}$/;

/**
 * Creates the gate of the admin API. A valid token is always accepted at once. After three wrong tokens from an
 * address, the answers to further wrong tokens from that address are delayed.
 */
export function createAdminGate(deps: {
  readonly admins: AdminStore;
  readonly clock: Clock;
  /** Value of `FAREBOX_ADMIN_TOKEN`; null if it is not set. */
  readonly settingsToken: string | null;
  /** Called for each failed attempt, to count it in the metrics. */
  readonly onFailure: (why: AdminFailure) => void;
}): AdminGate {
  const { admins, clock } = deps;
  const settingsDigest = deps.settingsToken === null ? null : digestOf(deps.settingsToken);
  const attempts = new FailedAttempts(clock);

  const failed = (why: AdminFailure, message: string, retryAfterSeconds: number | null = null): Admission => {
    deps.onFailure(why);
    return { ok: false, why, message, retryAfterSeconds };
  };

  async function check(
    token: string,
    digest: Buffer,
  ): Promise<Admission | { readonly wrong: AdminFailure; readonly message: string }> {
    if (settingsDigest !== null && timingSafeEqual(digest, settingsDigest)) {
      return { ok: true, caller: settingsCaller, credential: { id: null, digest } };
    }
    const id = tokenPattern.exec(token)?.[1];
    const admin = id === undefined ? undefined : await admins.findById(id);
    const isRight = timingSafeEqual(digest, admin === undefined ? unusedDigest : Buffer.from(admin.digest, "hex"));
    if (admin === undefined || !isRight) return { wrong: "unknown", message: unknownMessage(token) };
    if (!isLive(admin, clock.now())) {
      const why = admin.revokedAt === null ? "expired" : "revoked";
      return { wrong: why, message: `This admin token ${why === "expired" ? "has expired" : "has been revoked"}.` };
    }
    return { ok: true, caller: callerOf(admin), credential: { id: admin.id, digest } };
  }

  async function admit(authorization: string | undefined, address: string): Promise<Admission> {
    const token = /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1];
    // A request without a token is not a guess, so it is not delayed.
    if (token === undefined) return failed("missing", await missingMessage(deps));
    const checked = await check(token, digestOf(token));
    if (!("wrong" in checked)) return checked;
    const delayed = await attempts.delay(address);
    if (!delayed.ok)
      return failed(
        "too_many",
        "There were too many attempts with wrong admin tokens from this address; try again later.",
        delayed.retryAfterSeconds,
      );
    return failed(checked.wrong, checked.message);
  }

  async function currentCaller({ id, digest }: AdminCredential): Promise<AdminCaller | undefined> {
    if (id === null)
      return settingsDigest !== null && timingSafeEqual(digest, settingsDigest) ? settingsCaller : undefined;
    const admin = await admins.findById(id);
    const isValid =
      admin !== undefined && isLive(admin, clock.now()) && timingSafeEqual(digest, Buffer.from(admin.digest, "hex"));
    return isValid ? callerOf(admin) : undefined;
  }

  return { admit, currentCaller };
}

const settingsCaller: AdminCaller = { name: settingsAdmin, role: "editor", expiresAt: null };

function callerOf({ name, role, expiresAt }: Admin): AdminCaller {
  return { name, role, expiresAt };
}

/**
 * Digest that matches no token. The gate compares it if the admin is unknown, so that all answers take equally long.
 */
const unusedDigest = Buffer.alloc(32);

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

const howToCreate = "'farebox admins create NAME --role editor' creates one";

function unknownMessage(token: string): string {
  if (token.startsWith("sk-fb-"))
    return `This is a key for requests to models; the admin API needs an admin token; ${howToCreate}.`;
  return `This admin token is unknown; ${howToCreate}.`;
}

async function missingMessage(deps: {
  readonly admins: AdminStore;
  readonly settingsToken: string | null;
}): Promise<string> {
  if (deps.settingsToken === null && (await deps.admins.list()).length === 0) {
    return `There is no admin token yet, so the admin API is closed; ${howToCreate}, or set FAREBOX_ADMIN_TOKEN.`;
  }
  return "No admin token was sent. Send it as 'Authorization: Bearer sk-fba-…'.";
}
