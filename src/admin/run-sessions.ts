import { randomBytes } from "node:crypto";
import { z } from "zod";
import {
  isTagName,
  runSessionMsMax,
  runSessionsKeptMax,
  runSessionsMax,
  sessionTag,
  tagsMax,
  tagValueBytesMax,
  type Key,
  type RunSession,
} from "../core/keys.ts";
import { parseUsd } from "../core/money.ts";
import type { Clock } from "../ports/clock.ts";
import type { RunSessions } from "../ports/run-sessions.ts";
import { credentialOf } from "../wire/run-credential.ts";
import { failure, type Failure } from "./result.ts";

export interface RunSessionTools {
  readonly sessions: Pick<RunSessions, "create" | "secret">;
  readonly clock: Clock;
  readonly random?: (count: number) => Uint8Array;
}

const tagWords = `must have at most ${tagsMax - 1} names of up to 63 of a-z, 0-9, '.', '_' and '-', other than ${sessionTag}, with values of 1 to ${tagValueBytesMax} bytes without a comma`;
const secondsMax = runSessionMsMax / 1000;
const lifeWords = `must be a whole number from 1 to ${secondsMax}`;

/** Input of a new session. */
export const newSessionSchema = z.strictObject({
  budget_usd: z
    .string('must be an amount of USD such as "2.00"')
    .transform((text, context) => {
      const amount = parseUsd(text);
      if (amount !== undefined) return amount;
      context.addIssue("must be an amount of USD such as 2 or 2.50, below 9 million");
      return z.NEVER;
    })
    .nullable()
    .default(null),
  tags: z
    .record(z.string(), z.string(tagWords), tagWords)
    .refine((tags) => Object.keys(tags).length < tagsMax && Object.entries(tags).every(isTag), tagWords)
    .default({}),
  expires_in_seconds: z.int(lifeWords).min(1, lifeWords).max(secondsMax, lifeWords).default(secondsMax),
});

export type NewSession = z.output<typeof newSessionSchema>;

/** Returns true if a header could carry this tag. */
function isTag([name, value]: readonly [string, string]): boolean {
  if (!isTagName(name) || name === sessionTag) return false;
  return value.trim() === value && /^[^,\p{Cc}]+$/u.test(value) && Buffer.byteLength(value) <= tagValueBytesMax;
}

export interface BegunSession {
  readonly ok: true;
  readonly session: RunSession;
  /** Credential that authenticates requests of this session as its key. It is not stored. */
  readonly credential: string;
}

/** Begins a session of a key. `by` names the person who begins it directly in the ledger; null if the key begins it. */
export async function beginSession(
  { sessions, clock, random = randomBytes }: RunSessionTools,
  key: Pick<Key, "id" | "name">,
  { budget_usd: budget, tags, expires_in_seconds: seconds }: NewSession,
  by: string | null,
): Promise<BegunSession | Failure> {
  const createdAt = clock.now();
  const session: RunSession = {
    id: `run_${Array.from(random(idLength), (byte) => base32[byte % base32.length]).join("")}`,
    key: key.id,
    tags,
    budget,
    createdAt,
    expiresAt: createdAt + seconds * 1000,
    endedAt: null,
  };
  switch (await sessions.create(session, by)) {
    case "ok":
      return { ok: true, session, credential: credentialOf(session, await sessions.secret()) };
    case "no_such_key":
      return failure("refused", `${key.name} is not a live key any more`);
    case "too_many":
      return failure(
        "refused",
        `${key.name} has too many sessions: ${runSessionsMax} may be open, and ${runSessionsKeptMax} begun in an hour or so; end one, or wait`,
      );
  }
}

/** Length of a session's id in base32 characters: 100 bits. */
const idLength = 20;
const base32 = "abcdefghijklmnopqrstuvwxyz234567";
