import type { Session } from "./types.ts";

/** Error with a message for the user. `signedOut` is true if the session has ended. */
export class Fault extends Error {
  readonly status: number;
  readonly code: string;
  readonly retryAfterS: number | null;
  constructor(
    message: string,
    { status, code, retryAfterS = null }: { status: number; code: string; retryAfterS?: number | null },
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfterS = retryAfterS;
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

/** Calls this Farebox. Throws a Fault on failure. Writes carry a header that pages of other origins cannot send. */
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
    throw new Fault("Farebox does not answer. Check that it is running.", { status: 0, code: "unreachable" });
  });
  if (response.ok) return (await response.json()) as T;
  throw await faultOf(response);
}

async function faultOf(response: Response): Promise<Fault> {
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  const answer: unknown = await response.json().catch(() => null);
  const error = (answer as { error?: { message?: string; code?: string } } | null)?.error;
  return new Fault(error?.message ?? `Farebox answered ${response.status} without a reason.`, {
    status: response.status,
    code: error?.code ?? "unknown",
    retryAfterS: Number.isFinite(retryAfter) ? retryAfter : null,
  });
}

function queryOf(query: Parameters): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

const sessionPath = "/dashboard/session";

export function currentSession(): Promise<Session> {
  return ask<Session>(sessionPath);
}

export function signIn(token: string): Promise<Session> {
  return ask<Session>(sessionPath, { method: "POST", body: { token } });
}

export function signOut(): Promise<Session> {
  return ask<Session>(sessionPath, { method: "DELETE" });
}

export const admin = "/admin/v1";
export const own = "/v1/farebox";
