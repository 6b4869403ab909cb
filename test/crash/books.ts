import Database from "better-sqlite3";
import type { BilledCall, Sandbox } from "../../src/sandbox/options.ts";

/** A charge as it is in the file, read past the program under test. */
export interface Row {
  readonly seq: bigint;
  readonly id: string;
  readonly number: string | null;
  readonly state: "pending" | "posted" | "voided";
  readonly source: string | null;
  readonly reason: string | null;
  readonly hold: bigint | null;
  readonly cost: bigint | null;
  readonly prompt: bigint;
  readonly completion: bigint;
}

export interface Window {
  readonly budget: string;
  readonly mode: "hard" | "soft";
  readonly limit: bigint;
  readonly spent: bigint;
  readonly held: bigint;
}

export interface FileBooks {
  readonly rows: readonly Row[];
  readonly windows: readonly Window[];
}

const rowsSql = `select seq, id, json_extract(tags, '$.number') number, state, source, reason, hold, cost,
  input + cached_input + cache_write prompt, output + reasoning completion from charges where seq > ? order by seq`;
const windowsSql = `select scope budget, mode, amount_limit "limit", spent, held from windows w join budgets b on b.seq = w.budget`;

/** The charges after the given one, and all windows. */
export function readFile(database: string, afterSeq = 0n): FileBooks {
  const db = new Database(database, { readonly: true });
  try {
    return {
      rows: db.prepare(rowsSql).safeIntegers().all(afterSeq) as Row[],
      windows: db.prepare(windowsSql).safeIntegers().all() as Window[],
    };
  } finally {
    db.close();
  }
}

/** Of one request at the gateway. */
export interface AtGateway {
  readonly number: string;
  /** Null where it was billed nothing. */
  readonly bill: BilledCall | null;
}

/** Chat requests that the gateway has read, from its so many-th request of any kind on, with what it billed for each. */
export function gatewayBooks(sandbox: Sandbox, from: { readonly request: number; readonly call: number }): AtGateway[] {
  // A request's id ends with its number in hexadecimal, counted from 1.
  const bills = new Map(sandbox.ledger.slice(from.call).map((call) => [Number.parseInt(call.requestId.slice(-12), 16) - 1, call]));
  return sandbox.requests.slice(from.request).flatMap(({ body, path }, index) => {
    if (body.length === 0 || !path.endsWith("/chat/completions")) return [];
    return [{ number: String(JSON.parse(body.toString()).user), bill: bills.get(from.request + index) ?? null }];
  });
}
