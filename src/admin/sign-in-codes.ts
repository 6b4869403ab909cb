import { createHash, randomBytes } from "node:crypto";
import { minuteMs } from "../core/time.ts";
import type { Clock } from "../ports/clock.ts";

/** Lifetime of a code, in milliseconds. */
export const codeMs = 10 * minuteMs;
/** Largest number of unused codes. A further code removes the oldest one. */
const codesMax = 100;

/**
 * One-time codes that sign a browser in instead of a token. This process keeps them in memory, by their digests. A link
 * contains the code in its fragment, which browsers never send to a server.
 */
export class SignInCodes {
  readonly #clock: Clock;
  /** Tokens by the digests of their codes, oldest first. */
  readonly #tokens = new Map<string, { readonly token: string; readonly endsAt: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns a new code for a token. */
  create(token: string): string {
    const code = `fb-once-${randomBytes(32).toString("base64url")}`;
    this.#tokens.set(digestOf(code), { token, endsAt: this.#clock.monotonic() + codeMs });
    const [oldest] = this.#tokens.keys();
    if (this.#tokens.size > codesMax && oldest !== undefined) this.#tokens.delete(oldest);
    return code;
  }

  /** Returns the token of a code and removes the code; undefined if the code is unknown, used or too old. */
  use(code: string): string | undefined {
    const digest = digestOf(code);
    const found = this.#tokens.get(digest);
    this.#tokens.delete(digest);
    return found !== undefined && this.#clock.monotonic() < found.endsAt ? found.token : undefined;
  }
}

function digestOf(code: string): string {
  return createHash("sha256").update(code).digest("base64");
}
