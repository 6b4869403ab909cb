import { z } from "zod";
import { addressKind, isAllowed } from "../core/addresses.ts";
import { parseDuration } from "../core/time.ts";
import { parseUsd } from "../core/money.ts";
import { hostOf, isLoopback, parseHost, parseOrigin, type GatewayAddress } from "./addresses.ts";
import { parseDatabase } from "./database.ts";
import { Secret } from "./secret.ts";

/** Kind of setting: the schema that converts its text into a value, and how the setting is written. */
export interface Kind<T> {
  /** Schema whose error messages complete the sentence "FAREBOX_X …" and never contain the text. */
  readonly schema: z.ZodType<T, string>;
  /** Placeholder of the value in `--help`: "duration". */
  readonly placeholder: string;
  /** True for a setting that is never printed and has no flag. */
  readonly secret: boolean;
  /** True if `FAREBOX_X_FILE` may name a file that holds the text. */
  readonly fileForm: boolean;
}

function kind<T>(
  placeholder: string,
  schema: z.ZodType<T, string>,
  { secret = false, fileForm = secret }: { readonly secret?: boolean; readonly fileForm?: boolean } = {},
): Kind<T> {
  return { schema, placeholder, secret, fileForm };
}

/** Builds a schema from a parser that returns undefined for a text that is not `allowed`. */
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

/** Duration in milliseconds from `min` to `max`. The default maximum is the longest timer of Node. */
export function duration(min: string, max = "24d"): Kind<number> {
  const allowed = `a duration from ${min} to ${max}, written as a whole number and ms, s, m, h or d, such as 30s`;
  return kind("duration", number(allowed, parseDuration, parseDuration(min) ?? 0, parseDuration(max) ?? 0));
}

const bytesIn = { "": 1, b: 1, kb: 1024, mb: 1024 ** 2, gb: 1024 ** 3 } as const;

/** Reads a number of bytes: a plain number, or "512kb", "32mb", "1gb" with binary multiples, in upper or lower case. */
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

/** Largest number of workers. One primary can serve far fewer, so a larger number is a typing error. */
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
  const schema = parsed(`one of ${choices.join(", ")}`, (text) => choices.find((known) => known === text));
  return kind(choices.join("|"), schema);
}

export const yesNo = kind(
  "1|0",
  z.stringbool({ truthy: ["1", "true"], falsy: ["0", "false"], case: "sensitive", error: "must be 1 or 0" }),
);

export const host = kind(
  "host",
  parsed("a host name or an IP address alone, such as 127.0.0.1 or ::1, without a scheme or a port", parseHost),
);

export const usdAmount = kind("usd", parsed("an amount of USD such as 5 or 2.50, below 9 million", parseUsd));

// oxlint-disable-next-line no-control-regex -- a NUL in a path is never meant
export const path = kind("path", z.string().regex(/^[^\x00-\x1f\x7f]*$/, "must be the path of a folder"));

export const origins = kind(
  "origins",
  parsed(
    "a list of origins separated by commas, such as https://app.example,http://localhost:3000; * is not one",
    (text): readonly string[] | undefined => {
      const found = text.split(",").map((part) => parseOrigin(part.trim()));
      return found.every((origin) => origin !== undefined) ? found : undefined;
    },
  ),
);

/** IANA time zone. The caller of `loadSettings` checks that it exists. */
export const timeZone = kind(
  "zone",
  z.string().regex(/^[A-Za-z0-9+_/-]{1,64}$/, "must be an IANA time zone such as UTC or Europe/Berlin"),
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

/** Secret that signs webhooks: `whsec_` and base64, the form of Standard Webhooks, or any word of 16 or more characters. */
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
  .refine(noUser, "must not hold a user name or password")
  .refine(({ search, hash }) => search === "" && hash === "", "must not have a query or a fragment");

const trimmedPath = ({ pathname }: URL) => pathname.replace(/\/+$/, "");

/** Base address of the gateway, with or without `/v1` at its end. */
export const gatewayAddress: Kind<GatewayAddress> = kind(
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

/** Address of a webhook. Its path and query may contain a secret. The IP addresses of its host are checked at each delivery. */
export const webhookAddress = kind(
  "url",
  url("https://hooks.example/farebox")
    .refine(
      ({ protocol, origin }) => protocol === "https:" || (protocol === "http:" && isLoopback(hostOf(origin))),
      "must begin with https://; plain http only to this machine",
    )
    .refine(noUser, "must not hold a user name or password")
    .refine(({ hash }) => hash === "", "must not have a fragment")
    .refine(
      (address) => addressKind(hostOf(address.href)) === undefined || isAllowed(hostOf(address.href), "administrator"),
      "must not name a link-local, metadata or reserved address",
    )
    .transform(({ href }) => new Secret(href)),
  { secret: true },
);

/**
 * Database of the ledger. Its password is never shown, and a flag must not contain one: other users of the machine see flags.
 */
export const database = kind(
  "path",
  z.string().transform((text, context) => {
    const read = parseDatabase(text);
    if (read.ok) return read.value;
    context.addIssue(read.problem);
    return z.NEVER;
  }),
  { fileForm: true },
);
