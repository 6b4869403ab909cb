import { LRUCache } from "lru-cache";
import { creditKinds } from "../core/account.ts";
import { formatUsd, usdNumber, type PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import { type Exchange, type HeaderList, notForwarded, refuse, type Handler } from "../ports/exchange.ts";
import type { Gateway } from "../ports/gateway.ts";
import type { Log } from "../ports/log.ts";
import { balanceField, balanceIn, readAccount } from "../wire/account.ts";
import { answerHeaders } from "../wire/headers.ts";
import { readStatedError } from "../wire/stated-error.ts";
import { withMembersHidden } from "../wire/json-edit.ts";
import { valueAt, type JsonObject } from "../wire/json.ts";
import { type Authenticate, withKey } from "./authenticate.ts";
import {
  fetchWhole,
  isKeyRefused,
  plainBody,
  recordBytesMax,
  accountRecordIn,
  type WholeAnswer,
} from "./fetch-whole.ts";
import { failedCall } from "./gateway-failure.ts";
import type { KeyWatch } from "./gateway-key.ts";
import { hidden, keyRefused, maskedHeaders, type Mask } from "./response.ts";

const route = "/account/info";

/** Gateway's account record, with the time at which it was fetched. */
interface AccountRecord {
  readonly body: JsonObject;
  /** Decoded text of the record, as the gateway wrote it. */
  readonly bytes: Buffer;
  readonly fetchedAt: number;
}

/** Error for a record that could not be read. `answer`: the gateway's own answer, or the reason why there is none. */
class AccountFailure extends Error {
  readonly answer: WholeAnswer;

  constructor(answer: WholeAnswer) {
    super("the account record could not be read");
    this.answer = answer;
  }
}

export type AccountLookup =
  | { readonly ok: true; readonly record: AccountRecord; readonly freshness: "hit" | "miss" | "stale" }
  | { readonly ok: false; readonly answer: WholeAnswer };

export interface AccountCache {
  lookUp(): Promise<AccountLookup>;
  /** Fetches the record from the gateway and caches it. Returns undefined if the record cannot be read. */
  refresh(): Promise<AccountRecord | undefined>;
}

/**
 * Creates a cache for the account record. Concurrent misses share one request. Serves a stale record while it fetches a
 * new one, and if the gateway fails.
 */
export function createAccountCache(deps: {
  readonly gateway: Gateway;
  readonly clock: Clock;
  readonly events: Pick<Events, "accountRead">;
  readonly keyWatch: Pick<KeyWatch, "setRefused">;
  readonly ttlMs: number;
  readonly silenceMs: number;
}): AccountCache {
  const { gateway, clock, events, keyWatch } = deps;
  const cache = new LRUCache<string, AccountRecord>({
    max: 1,
    ttl: deps.ttlMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
    allowStale: true,
    noDeleteOnStaleGet: true,
    noDeleteOnFetchRejection: true,
    // A refresh may replace the record while a lookup still fetches one. The lookup then uses the one that it fetched.
    ignoreFetchAbort: true,
    fetchMethod: () => fetchRecord(),
  });

  async function fetchRecord(): Promise<AccountRecord> {
    const answer = await fetchWhole(gateway, route, deps.silenceMs);
    const found = await accountRecordIn(answer);
    if (found === undefined) {
      events.accountRead(null);
      if (await isKeyRefused(answer)) keyWatch.setRefused(true);
      throw new AccountFailure(answer);
    }
    keyWatch.setRefused(false);
    const fetchedAt = clock.now();
    const { balance, ...account } = readAccount(found.body);
    events.accountRead({ ...account, usd: balance === null ? null : usdNumber(balance), fetchedAt });
    return { ...found, fetchedAt };
  }

  return {
    async lookUp() {
      const status: LRUCache.Status<string, AccountRecord> = {};
      try {
        const record = await cache.fetch(route, { status });
        if (record === undefined) throw new Error("the cache returned neither a record nor an error");
        const freshness = status.returnedStale === true ? "stale" : status.fetch === "hit" ? "hit" : "miss";
        return { ok: true, record, freshness };
      } catch (error) {
        if (error instanceof AccountFailure) return { ok: false, answer: error.answer };
        throw error;
      }
    },

    async refresh() {
      try {
        const record = await fetchRecord();
        cache.set(route, record);
        return record;
      } catch (error) {
        if (error instanceof AccountFailure) return undefined;
        throw error;
      }
    },
  };
}

/** Handles `GET /account/info`. Answers with the record without its secrets, or with the gateway's own error. */
export function accountInfo(deps: {
  readonly authenticate: Authenticate;
  readonly account: { lookUp(): Promise<AccountLookup> };
  readonly clock: Clock;
  readonly mask: Mask;
  readonly view: "full" | "balance" | "admin";
}): Handler {
  return withKey(deps.authenticate, "/account/info", async (exchange) => {
    if (deps.view === "admin") {
      return refuse(exchange, {
        code: "not_found",
        message: "Internal keys cannot read the account record here (FAREBOX_ACCOUNT_INFO is admin).",
      });
    }
    const found = await deps.account.lookUp();
    if (!found.ok) return answerFailure(exchange, found.answer, deps.mask);
    const { record, freshness } = found;
    const shown =
      deps.view === "balance"
        ? balanceOnly(record)
        : withMembersHidden(record.bytes, (name) => secretName.test(name), hidden);
    const age = Math.max(0, Math.floor((deps.clock.now() - record.fetchedAt) / 1000));
    const headers: HeaderList = [
      ["content-type", "application/json"],
      ["x-farebox-cache", freshness],
      ["age", String(age)],
    ];
    exchange.answer(200, headers, deps.mask(shown));
    return notForwarded;
  });
}

const secretName = /key$|^key|secret|hook|token|password/i;

/** Paths of the members that contain the figures of an account. */
const figurePaths: readonly (readonly string[])[] = [
  [balanceField],
  ["wallet", balanceField],
  ...creditKinds.map((kind) => ["credit_pack_info", `${kind}_credits`]),
  ["credit_pack_info", balanceField],
];

/** Members to show: each name with its JSON text, or with the members in it. */
type Shown = Map<string, string | Shown>;

/**
 * Returns the record with only its code, message, balance and credits. Each value keeps its path and its exact text.
 */
function balanceOnly({ bytes, body }: AccountRecord): Buffer {
  const root: Shown = new Map();
  const show = (...path: readonly string[]) => {
    const place = valueAt(bytes, path);
    if (place === undefined) return;
    let at = root;
    for (const name of path.slice(0, -1)) {
      const inner = at.get(name);
      const next: Shown = inner instanceof Map ? inner : new Map();
      at.set(name, next);
      at = next;
    }
    at.set(path.at(-1) ?? "", bytes.toString("utf8", place.valueStart, place.valueEnd));
  };
  show("code");
  root.set("data", new Map());
  for (const path of figurePaths) show("data", ...path);
  show("message");
  for (const path of figurePaths) show(...path);
  const elsewhere = balanceIn(body)?.path;
  if (elsewhere !== undefined) show(...elsewhere, balanceField);
  return Buffer.from(textOf(root));
}

function textOf(shown: string | Shown): string {
  if (typeof shown === "string") return shown;
  return `{${[...shown].map(([name, inner]) => `${JSON.stringify(name)}:${textOf(inner)}`).join(",")}}`;
}

async function answerFailure(exchange: Exchange, answer: WholeAnswer, mask: Mask): Promise<typeof notForwarded> {
  if (await isKeyRefused(answer)) return refuse(exchange, keyRefused);
  if (answer.ok && answer.head.status >= 400) {
    await answerError(exchange, answer, mask);
    return notForwarded;
  }
  return refuse(exchange, answer.ok ? unreadable : failedCall(answer.failure, true).refusal);
}

/** Answers with the gateway's own error. Decodes a compressed error first, so that the mask finds secrets in it. */
async function answerError(exchange: Exchange, answer: Extract<WholeAnswer, { ok: true }>, mask: Mask): Promise<void> {
  const { head, bytes } = answer;
  const plain = await plainBody(answer, recordBytesMax);
  const dropped = plain === undefined ? ["content-length"] : ["content-length", "content-encoding"];
  const headers = answerHeaders(head.rawHeaders).filter(([name]) => !dropped.includes(name.toLowerCase()));
  exchange.answer(head.status, maskedHeaders(headers, mask), mask(plain ?? bytes));
}

const unreadable: Refusal = { code: "gateway_unreachable", message: "The gateway's account record cannot be read." };

/**
 * Checks the key with the account record, or with the list of models if the gateway has no record. Some gateways return
 * the list for any key, so it proves nothing.
 */
export async function checkGatewayKey(
  account: Pick<AccountCache, "lookUp">,
  gateway: Gateway,
  keyWatch: Pick<KeyWatch, "setRefused">,
  silenceMs: number,
): Promise<void> {
  const found = await account.lookUp();
  if (found.ok || !found.answer.ok || found.answer.head.status !== 404) return;
  if (await isKeyRefused(await fetchWhole(gateway, "/v1/models", silenceMs), readStatedError))
    keyWatch.setRefused(true);
}

/** Returns a refusal while the balance is known to be below the floor; null otherwise. */
export type BalanceGuard = () => Refusal | null | Promise<Refusal | null>;

/**
 * Longest time that a request waits for the gateway's account record, in milliseconds. After such a timeout, later
 * requests continue without waiting. Requests wait again once a lookup has completed.
 */
const patienceMs = 2_000;

/**
 * Creates a guard that refuses requests while the gateway's last known balance is below the floor. The guard reads the
 * cached account record.
 */
export function createBalanceGuard(deps: {
  readonly account: Pick<AccountCache, "lookUp">;
  readonly clock: Clock;
  readonly floor: PicoUsd | null;
  readonly log: Log;
}): BalanceGuard {
  const { account, clock, floor, log } = deps;
  if (floor === null) return () => null;
  let isBelow = false;
  let isSlow = false;
  const check = async (): Promise<void> => {
    const found = await account.lookUp();
    const balance = found.ok ? readAccount(found.record.body).balance : null;
    const wasBelow = isBelow;
    // An unknown balance changes nothing: without a readable record, the last known balance counts.
    if (balance !== null) isBelow = balance < floor;
    isSlow = false;
    if (isBelow && !wasBelow && balance !== null)
      log.warn({ balance_usd: formatUsd(balance), floor_usd: formatUsd(floor) }, "the balance is under its floor");
  };
  const checkInTime = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const timer = clock.after(patienceMs, () => {
        isSlow = true;
        resolve();
      });
      check()
        .then(resolve, reject)
        .finally(() => timer.cancel());
    });
  return async () => {
    if (isSlow) void check().catch((error: unknown) => log.error({ err: error }, "the balance could not be checked"));
    else await checkInTime();
    return isBelow ? { code: "balance_floor" } : null;
  };
}
