import { tightestLimit, type LimitStatus } from "../core/limits.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Exchange, HeaderList } from "../ports/exchange.ts";
import type { Authenticated } from "./authenticate.ts";
import { refuse, type Summary } from "./handler.ts";

/**
 * The limits of keys and teams. Looking and taking are one step without a wait in between, so that no two requests of a
 * proxy get the same room. Who counts may be in another process, and then answers later.
 */
export interface Limiter {
  /** Takes a request and a slot among the running ones, of the key and its team both or of neither. */
  enter(who: Authenticated): Entry | Promise<Entry>;
  /** Returns the remainder of each limit that applies to the caller, the key's before the team's. */
  standing(who: Authenticated): readonly LimitStatus[];
}

export type Entry =
  | { readonly ok: true; readonly slot: Slot }
  | { readonly ok: false; readonly refusal: Refusal; readonly headers: HeaderList };

/** A request's slot among the running ones. */
export interface Slot {
  /** True where a limit of tokens applies to it. */
  readonly countsTokens: boolean;
  /** Reserves so many tokens with everybody who limits them; false, and nothing reserved, where they do not fit. */
  reserve(tokens: number): boolean | Promise<boolean>;
  /**
   * As `reserve`, with the reason where they do not fit. `exact` tells a count from a bound: a bound above a whole
   * limit is cut to it, because the request may well be smaller; a count above it never fits.
   */
  reserveOrRefuse(tokens: number, exact: boolean): Refusal | null | Promise<Refusal | null>;
  /** Puts what was used in the place of what was reserved, once; null keeps the reservation. */
  settleTokens(used: number | null): void;
  /** Takes the request back: it was refused by a limit, and counts for none. */
  cancel(): void;
  /** Gives the slot up; the first call counts. */
  leave(): void;
  /** Returns the remainder of the tighter limit of key and team, in OpenAI's names. */
  headers(): HeaderList;
}

/** The slot of a request that nothing limits: one for all. */
export const unlimited: Slot = {
  countsTokens: false,
  reserve: () => true,
  reserveOrRefuse: () => null,
  settleTokens() {},
  cancel() {},
  leave() {},
  headers: () => [],
};

/** A handler of requests that count against the limits of their key and team. */
export function withSlot(
  limiter: Pick<Limiter, "enter">,
  handle: (exchange: Exchange, who: Authenticated, slot: Slot) => Promise<Summary>,
): (exchange: Exchange, who: Authenticated) => Promise<Summary> {
  return async (exchange, who) => {
    const entering = limiter.enter(who);
    const entry = entering instanceof Promise ? await entering : entering;
    if (!entry.ok) {
      exchange.replaceHeaders(headerPrefix, () => entry.headers);
      return refuse(exchange, entry.refusal);
    }
    const { slot } = entry;
    if (slot === unlimited) return handle(exchange, who, slot);
    exchange.replaceHeaders(headerPrefix, () => slot.headers());
    try {
      return await handle(exchange, who, slot);
    } finally {
      slot.leave();
    }
  };
}

/**
 * Reserves a request's tokens: by a bound, and by a count only where the bound does not fit, as holds do. `count`
 * answers undefined where the prompt cannot be counted. The refusal leaves nothing behind but the slot.
 */
export async function reserveTokens(
  slot: Slot,
  bound: number,
  count: () => Promise<number | undefined>,
): Promise<Refusal | null> {
  if (await slot.reserve(bound)) return null;
  const counted = await count();
  const refusal =
    counted === undefined
      ? await slot.reserveOrRefuse(bound, false)
      : await slot.reserveOrRefuse(Math.min(counted, bound), true);
  if (refusal !== null) slot.cancel();
  return refusal;
}

const headerPrefix = "x-ratelimit-";
const headerNames = { rpm: "requests", tpm: "tokens" } as const;

/** Returns the remainder of the tighter limit of a key and its team, in OpenAI's names. */
export function limitHeaders(standings: readonly LimitStatus[]): HeaderList {
  return (["rpm", "tpm"] as const).flatMap((kind) => {
    const tightest = tightestLimit(kind, standings);
    if (tightest === undefined) return [];
    const name = headerNames[kind];
    return [
      [`${headerPrefix}limit-${name}`, String(tightest.limit)],
      [`${headerPrefix}remaining-${name}`, String(tightest.remaining)],
      [`${headerPrefix}reset-${name}`, spanText(tightest.resetsInMs ?? 0)],
    ] as const;
  });
}

/** "0s", "17s", "1m1s": as OpenAI writes it, in whole seconds rounded up. */
function spanText(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
