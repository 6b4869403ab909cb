import { isIP } from "node:net";
import { z } from "zod";
import { addressKind, hostOf, isAllowed, isLoopbackHost } from "../core/addresses.ts";
import { parseDuration } from "../core/time.ts";
import { parseUsd } from "../core/money.ts";
import { isPostgresUrl, parsePostgresUrl, shownPostgres } from "../core/postgres-url.ts";
import { isTimeZone } from "../platform/clock.ts";
import type { DatabaseSetting } from "./database.ts";
import { Secret } from "./secret.ts";

/**
 * Kind of a setting: the schema that converts its text into a value, its placeholder, and the places where its text may
 * be given.
 */
export interface Kind<T> {
  /** Schema whose error messages complete the sentence "FAREBOX_X …" and never contain the setting's text. */
  readonly schema: z.ZodType<T, string>;
  /** Placeholder of the value in `--help`: "duration". */
  readonly placeholder: string;
  /** True for a setting that is never printed and has no flag. */
  readonly secret: boolean;
  /** True if `FAREBOX_X_FILE` may name a file that contains the text. */
  readonly fileForm: boolean;
}

function kind<T>(
  placeholder: string,
  schema: z.ZodType<T, string>,
  { secret = false, fileForm = secret }: { readonly secret?: boolean; readonly fileForm?: boolean } = {},
): Kind<T> {
  return { schema, placeholder, secret, fileForm };
}

/** Builds a schema from a parser that returns undefined for an invalid text. `allowed` describes the valid texts. */
function parsed<T>(allowed: string, parse: (text: string) => T | undefined): z.ZodType<T, string> {
  return z.string().transform((text, context) => {
    const value = parse(text);
    if (value !== undefined) return value;
    context.addIssue(`must be ${allowed}`);
    return z.NEVER;
  });
}

function number(allowed: string, parse: (text: string) => number | undefined, min: number, max: number) {
  return parsed(allowed, parse).pipe(z.number().min(min, `must be ${allowed}`).max(max, `must be ${allowed}`));
}

/**
 * Returns the kind of a duration from `min` to `max`. The value is in milliseconds. The default maximum fits Node's
 * longest timer.
 */
export function duration(min: string, max = "24d"): Kind<number> {
  const allowed = `a duration from ${min} to ${max}, written as a whole number and ms, s, m, h or d, such as 30s`;
  return kind("duration", number(allowed, parseDuration, parseDuration(min) ?? 0, parseDuration(max) ?? 0));
}

const bytesIn = { "": 1, b: 1, kb: 1024, mb: 1024 ** 2, gb: 1024 ** 3 } as const;

/**
 * Reads a number of bytes: a plain number, or "512kb", "32mb", "1gb" with binary multiples, in upper or lower case.
 * Returns undefined for any other text.
 */
function parseBytes(text: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,12})(b|kb|mb|gb)?$/.exec(text.toLowerCase()) ?? [];
  if (digits === undefined) return undefined;
  return Number(digits) * bytesIn[unit as keyof typeof bytesIn];
}

export function bytes(min: string, max: string): Kind<number> {
  const allowed = `a size from ${min} to ${max}, such as 512kb, 32mb or 1gb`;
  return kind("size", number(allowed, parseBytes, parseBytes(min) ?? 0, parseBytes(max) ?? 0));
}

const parseDigits = (text: string) => (/^\d{1,10}$/.test(text) ? Number(text) : undefined);

export function wholeNumber(min: number, max: number, placeholder = "number"): Kind<number> {
  return kind(placeholder, number(`a whole number from ${min} to ${max}`, parseDigits, min, max));
}

export const port = wholeNumber(0, 65_535, "port");

/** Largest number of workers. A single primary cannot serve even that many, so a larger number is a typing error. */
const workersMax = 128;

/** Number of processes that answer requests, or "auto" for one per core. */
export const workerCount = kind(
  "number|auto",
  parsed(`auto, or a whole number from 1 to ${workersMax}`, (text) => {
    if (text === "auto") return text;
    const count = parseDigits(text) ?? 0;
    return count >= 1 && count <= workersMax ? count : undefined;
  }),
);

export function choice<const C extends string>(choices: readonly C[]): Kind<C> {
  return kind(choices.join("|"), z.enum(choices, `must be one of ${choices.join(", ")}`));
}

export const yesNo = kind(
  "1|0",
  z.stringbool({ truthy: ["1", "true"], falsy: ["0", "false"], case: "sensitive", error: "must be 1 or 0" }),
);

const hostName = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,62})(?:\.[a-z0-9][a-z0-9-]{0,62})*\.?$/i;

/**
 * Reads a host name or address to listen on, without the brackets around IPv6. Returns undefined for any other text.
 */
function parseHost(text: string): string | undefined {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  return isIP(bare) !== 0 || hostName.test(bare) ? bare : undefined;
}

export const host = kind(
  "host",
  parsed("a host name or an IP address alone, such as 127.0.0.1 or ::1, without a scheme or a port", parseHost),
);

export const usdAmount = kind("usd", parsed("an amount of USD such as 5 or 2.50, below 9 million", parseUsd));

// oxlint-disable-next-line no-control-regex -- a path with a control character is a mistake
export const path = kind("path", z.string().regex(/^[^\x00-\x1f\x7f]*$/, "must be the path of a folder"));

/** Reads a browser origin such as "https://app.example". Returns undefined if the text is anything else. */
function parseOrigin(text: string): string | undefined {
  const url = URL.parse(text.trim());
  const isOrigin =
    url !== null && /^https?:$/.test(url.protocol) && url.origin === text.trim().toLowerCase().replace(/\/$/, "");
  return isOrigin ? url.origin : undefined;
}

const origin = parsed(
  "a list of origins without *, separated by commas, such as https://app.example,http://localhost:3000",
  parseOrigin,
);

export const origins = kind(
  "origins",
  z
    .string()
    .transform((text) => text.split(","))
    .pipe(z.array(origin)),
);

export const timeZone = kind(
  "zone",
  z.string().refine(isTimeZone, "must be an IANA time zone such as UTC or Europe/Berlin"),
);

const toSecret = (text: string) => new Secret(text);

/** Credential that is sent in a header: visible ASCII without spaces. */
export const secret = kind(
  "secret",
  z
    .string()
    .regex(/^[\x21-\x7e]{1,4096}$/, "must be one word of visible ASCII characters, without spaces")
    .transform(toSecret),
  { secret: true },
);

/** Secret that signs webhooks: `whsec_` and base64, as in Standard Webhooks, or any word of 16 or more characters. */
export const signingSecret = kind(
  "secret",
  z
    .string()
    .refine(
      isSigningSecret,
      "must be whsec_ and base64 of 16 bytes or more, or any other word of 16 or more visible ASCII characters",
    )
    .transform(toSecret),
  { secret: true },
);

function isSigningSecret(text: string): boolean {
  if (!text.startsWith("whsec_")) return /^[\x21-\x7e]{16,4096}$/.test(text);
  const encoded = text.slice("whsec_".length).replace(/=+$/, "");
  const decoded = Buffer.from(encoded, "base64");
  return decoded.length >= 16 && decoded.toString("base64").replace(/=+$/, "") === encoded;
}

const noUser = ({ username, password }: URL) => username === "" && password === "";

function url(sample: string) {
  return z
    .string()
    .refine((text) => URL.canParse(text), `must be an address such as ${sample}`)
    .transform((text) => new URL(text));
}

const webAddress = url("https://gateway.example")
  .refine(({ protocol }) => /^https?:$/.test(protocol), "must begin with https:// or http://")
  .refine(noUser, "must not contain a user name or password")
  .refine(({ search, hash }) => search === "" && hash === "", "must not have a query or a fragment");

const trimmedPath = ({ pathname }: URL) => pathname.replace(/\/+$/, "");

/**
 * Base address of the gateway, given with or without `/v1` at its end. The value contains the origin, such as
 * "https://gateway.example", and the path before `/v1`. The path is "", or a path such as "/api" without a final slash.
 */
export const gatewayAddress = kind(
  "url",
  webAddress.transform((address) => ({
    origin: address.origin,
    basePath: trimmedPath(address).replace(/\/v1$/, ""),
  })),
);

/** Farebox's own address: origin and path, without a slash at its end. */
export const publicAddress = kind(
  "url",
  webAddress.transform((address) => address.origin + trimmedPath(address)),
);

/** Address of a webhook. Its path and query may contain a secret. Each delivery checks the IP addresses of the host. */
export const webhookAddress = kind(
  "url",
  url("https://hooks.example/farebox")
    .refine(
      ({ protocol, hostname }) => protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname)),
      "must begin with https://; plain http only to this machine",
    )
    .refine(noUser, "must not contain a user name or password")
    .refine(({ hash }) => hash === "", "must not have a fragment")
    .refine(
      (address) => addressKind(hostOf(address)) === undefined || isAllowed(hostOf(address), "administrator"),
      "must not name a link-local, metadata or reserved address",
    )
    .transform(({ href }) => new Secret(href)),
  { secret: true },
);

// oxlint-disable-next-line no-control-regex -- a path with a control character is a mistake
const notFile = /^[a-z][a-z0-9+.-]+:|[\x00-\x1f\x7f]/i;

/** Database of the ledger. Refuses addresses of other databases, so that "mysql:" does not become a file name. */
export const database = kind(
  "path",
  z.string().transform((text, context): DatabaseSetting => {
    if (isPostgresUrl(text)) {
      const parsed = parsePostgresUrl(text);
      if (parsed.ok) {
        const { server } = parsed;
        const hasPassword = server.password !== null;
        return { kind: "postgres", url: new Secret(text), shown: shownPostgres(server), hasPassword };
      }
      context.addIssue(parsed.problem);
    } else {
      if (!notFile.test(text)) return { kind: "sqlite", path: text };
      context.addIssue("must be the path of an SQLite file, or a postgres:// address");
    }
    return z.NEVER;
  }),
  { fileForm: true },
);
