import { z } from "zod";
import {
  runSessionMsMax,
  runSessionsKeptMax,
  runSessionsMax,
  sessionTag,
  tagsMax,
  tagValueCharsMax,
  type Key,
} from "../core/keys.ts";
import { parseUsd } from "../core/money.ts";
import type { Clock } from "../ports/clock.ts";
import type { NewRunSession, RunSessions } from "../ports/stores.ts";
import { createCredential } from "../wire/run-credential.ts";
import { isPin, usdSchema } from "./fields.ts";
import { randomId } from "./key-changes.ts";
import { failure, type Failure } from "./result.ts";

export interface RunSessionTools {
  readonly sessions: Pick<RunSessions, "create" | "secret">;
  readonly clock: Clock;
  readonly random?: (count: number) => Uint8Array;
}

const tagWords = `must have at most ${tagsMax - 1} names of up to 63 characters (a-z, 0-9, '.', '_' and '-'), other than ${sessionTag}, with values of 1 to ${tagValueCharsMax} characters without a comma`;
const secondsMax = runSessionMsMax / 1000;
const lifetimeWords = `must be a whole number from 1 to ${secondsMax}`;

/** Input of a new session. */
export const newSessionSchema = z.strictObject({
  budget_usd: usdSchema("such as 2 or 2.50, below 9 million", parseUsd, 'must be an amount in USD such as "2.00"')
    .nullable()
    .default(null),
  tags: z
    .record(z.string(), z.string(tagWords), tagWords)
    .refine((tags) => Object.keys(tags).length < tagsMax && Object.entries(tags).every(isPin), tagWords)
    .default({}),
  expires_in_seconds: z.int(lifetimeWords).min(1, lifetimeWords).max(secondsMax, lifetimeWords).default(secondsMax),
});

export type NewSession = z.output<typeof newSessionSchema>;

interface BegunSession {
  readonly ok: true;
  readonly session: Omit<NewRunSession, "secret">;
  /** Credential with which requests of this session authenticate as the session's key. It is not stored. */
  readonly credential: string;
}

/** Author of a session: a client with this digest of its key's secret, or a person directly in the ledger. */
type Beginner = { readonly secret: string } | { readonly by: string };

/** Begins a session of a key. */
export async function beginSession(
  { sessions, clock, random }: RunSessionTools,
  key: Pick<Key, "id" | "name">,
  { budget_usd: budget, tags, expires_in_seconds: seconds }: NewSession,
  beginner: Beginner,
): Promise<BegunSession | Failure> {
  const createdAt = clock.now();
  const [secret, by] = "by" in beginner ? [null, beginner.by] : [beginner.secret, null];
  const session = {
    id: `run_${randomId(idLength, random)}`,
    key: key.id,
    secret,
    tags,
    budget,
    createdAt,
    expiresAt: createdAt + seconds * 1000,
    endedAt: null,
  };
  switch (await sessions.create(session, by)) {
    case "ok":
      return { ok: true, session, credential: createCredential(session, await sessions.secret()) };
    case "invalid_key":
      return failure("refused", `${key.name} is no longer a live key, or it has a new secret`);
    case "too_many":
      return failure(
        "refused",
        `${key.name} has too many sessions: at most ${runSessionsMax} may be open at a time, and at most ${runSessionsKeptMax} within about an hour; end a session, or wait`,
      );
  }
}

/** Length of a session's id in base32 characters: 100 bits. */
const idLength = 20;
