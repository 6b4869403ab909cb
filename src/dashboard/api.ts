import type { DashboardSession } from "./types.ts";

/** Error with a message for the user. `signedOut` is true if the session has ended. */
export class Fault extends Error {
  /** HTTP status of the answer; 0 without an answer. */
  readonly status: number;
  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }

  get signedOut(): boolean {
    return this.status === 401;
  }
}

export type Parameters = Readonly<Record<string, string | number | null | undefined>>;

interface Ask {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly query?: Parameters;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/**
 * Sends a request to this Farebox and returns the JSON of the answer. Throws a Fault on failure. Methods other than GET
 * carry a header that pages of other origins cannot send.
 */
export async function ask<T>(path: string, { method = "GET", query = {}, body, signal }: Ask = {}): Promise<T> {
  const response = await fetch(path + queryOf(query), {
    method,
    credentials: "same-origin",
    headers: {
      accept: "application/json",
      ...(method !== "GET" && { "x-farebox-dashboard": "1" }),
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal !== undefined && { signal }),
  }).catch((error: unknown) => {
    if (signal?.aborted === true) throw error;
    throw new Fault("Farebox does not answer. Check that it is running.", 0);
  });
  if (response.ok) return (await response.json()) as T;
  const answer: unknown = await response.json().catch(() => null);
  const error = (answer as { error?: { message?: string } } | null)?.error;
  throw new Fault(error?.message ?? `Farebox answered ${response.status} without a reason.`, response.status);
}

/**
 * Returns the query of an address, with its question mark, or "" if no value is given. Leaves out values that are null,
 * undefined or empty.
 */
export function queryOf(query: Parameters): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length === 0
    ? ""
    : `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))}`;
}

const sessionPath = "/dashboard/session";

export function currentSession(): Promise<DashboardSession> {
  return ask<DashboardSession>(sessionPath);
}

export function signIn(token: string): Promise<DashboardSession> {
  return ask<DashboardSession>(sessionPath, { method: "POST", body: { token } });
}

export function signOut(): Promise<DashboardSession> {
  return ask<DashboardSession>(sessionPath, { method: "DELETE" });
}

export const adminBase = "/admin/v1";
export const ownBase = "/v1/farebox";
