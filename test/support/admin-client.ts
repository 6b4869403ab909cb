import { request } from "node:http";
import { createAdmin } from "../../src/admin/admin-changes.ts";
import type { AdminRole } from "../../src/core/keys.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { openStore, utc } from "./ledger-fixtures.ts";

export interface AdminReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Parsed body; undefined if it is not JSON. */
  readonly json: never;
}

export interface AdminCallOptions {
  readonly token?: string | null;
  /** Body that is sent as JSON. */
  readonly body?: unknown;
  /** Body that is sent unchanged, instead of `body`. */
  readonly raw?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sends `raw` in chunks of unknown total length, and does not end the body. */
  readonly unended?: true;
  /** Source address; any address of 127.0.0.0/8. */
  readonly from?: string;
}

let usedAddresses = 0;

/** Returns an address that no other test uses, so that failed attempts delay no other test. */
export function unusedAddress(): string {
  usedAddresses++;
  return `127.77.${usedAddresses >> 8}.${usedAddresses & 255}`;
}

/** Creates another admin token for a database, as `farebox admins create` does, next to the running proxy. */
export async function addAdmin(
  database: string,
  name: string,
  role: AdminRole,
  lifetimeMs: number | null = null,
): Promise<string> {
  await using store = await openStore({ path: database, calendar: utc, clock: systemClock(), access: "command" });
  const created = await createAdmin(
    { admins: store.admins, clock: systemClock(), by: "test" },
    { name, role, lifetimeMs },
  );
  if (!created.ok) throw new Error(created.message);
  return created.text;
}

/**
 * Sends a request to the admin API, with a body for any method. Resolves with the answer even if the rest of the body
 * is not accepted.
 */
export function callAdmin(
  url: string,
  method: string,
  path: string,
  { token = null, body, raw, headers = {}, from, unended }: AdminCallOptions = {},
): Promise<AdminReply> {
  const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const target = new URL(`/admin/v1${path}`, url);
  return new Promise((resolve, reject) => {
    const outgoing = request(target, {
      method: method.toUpperCase(),
      agent: false,
      ...(from !== undefined && { localAddress: from }),
      headers: {
        ...(token !== null && { authorization: `Bearer ${token}` }),
        ...(sent !== undefined && {
          "content-type": "application/json",
          ...(!unended && { "content-length": Buffer.byteLength(sent) }),
        }),
        ...headers,
      },
    });
    outgoing.on("error", reject);
    outgoing.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: (response.headers["content-type"] === "application/json" ? JSON.parse(text) : undefined) as never,
        });
        outgoing.destroy();
      });
    });
    if (!unended && headers["content-length"] === undefined) outgoing.end(sent);
    // An announced body is refused before it arrives.
    else outgoing.write(sent ?? "x");
  });
}
