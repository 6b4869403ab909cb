import { isIP } from "node:net";
import { addressKind, hostOf, isAllowed, isLoopbackHost } from "../core/addresses.ts";
import { parseDuration } from "../core/time.ts";
import { isTagName, type TagHeader } from "../core/keys.ts";
import { parseUsd } from "../core/money.ts";
import { isPostgresUrl, parsePostgresUrl, shownPostgres } from "../core/postgres-url.ts";
import { isTimeZone } from "../platform/clock.ts";
import type { DatabaseSetting } from "./database.ts";
import { Secret } from "./secret.ts";

/** Value of a setting's text, or the problem with the text. */
type Reading<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      /** Completes the sentence "FAREBOX_X …". Never contains the setting's text. */
      readonly problem: string;
      /** All valid texts, if they are few. */
      readonly choices?: readonly string[];
    };

type Read<T> = (text: string) => Reading<T>;

/** Kind of a setting: how its text becomes a value, its placeholder, and the places where its text may be given. */
export interface Kind<T> {
  readonly read: Read<T>;
  /** Placeholder of the value in `--help`: "duration". */
  readonly placeholder: string;
  /** True for a setting that is never printed and has no flag. */
  readonly secret: boolean;
  /** True if `FAREBOX_X_FILE` may name a file that contains the text. */
  readonly fileForm: boolean;
}

function kind<T>(
  placeholder: string,
  read: Read<T>,
  { secret = false, fileForm = secret }: { readonly secret?: boolean; readonly fileForm?: boolean } = {},
): Kind<T> {
  return { read, placeholder, secret, fileForm };
}

const valid = <T>(value: T): Reading<T> => ({ ok: true, value });
const invalid = (problem: string): Reading<never> => ({ ok: false, problem });

/** Reads with a parser that returns undefined for an invalid text. `allowed` describes the valid texts. */
function parsed<T>(allowed: string, parse: (text: string) => T | undefined): Read<T> {
  return (text) => {
    const value = parse(text);
    return value === undefined ? invalid(`must be ${allowed}`) : valid(value);
  };
}

/** Rule for a value, and the problem of values that break it. */
type Rule<T> = readonly [holds: (value: T) => boolean, problem: string];

/** Reads a value and checks the rules in order. The first one that is broken is the problem. */
function checked<T>(read: Read<T>, ...rules: readonly Rule<T>[]): Read<T> {
  return (text) => {
    const reading = read(text);
    const broken = reading.ok ? rules.find(([holds]) => !holds(reading.value)) : undefined;
    return broken === undefined ? reading : invalid(broken[1]);
  };
}

/** Reads a value and converts it. */
function converted<T, U>(read: Read<T>, convert: (value: T) => U): Read<U> {
  return (text) => {
    const reading = read(text);
    return reading.ok ? valid(convert(reading.value)) : reading;
  };
}

const anyText: Read<string> = valid;

function number(allowed: string, parse: (text: string) => number | undefined, min: number, max: number): Read<number> {
  return checked(parsed(allowed, parse), [(value) => value >= min && value <= max, `must be ${allowed}`]);
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
  const read = (text: string): Reading<C> => {
    const value = choices.find((each) => each === text);
    return value === undefined ? { ok: false, problem: `must be one of ${choices.join(", ")}`, choices } : valid(value);
  };
  return kind(choices.join("|"), read);
}

const yesNoTexts: Readonly<Record<string, boolean>> = { 1: true, true: true, 0: false, false: false };

export const yesNo = kind("1|0", (text) =>
  Object.hasOwn(yesNoTexts, text)
    ? valid(yesNoTexts[text] === true)
    : { ok: false, problem: "must be 1 or 0", choices: Object.keys(yesNoTexts) },
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
const controls = /[\x00-\x1f\x7f]/;

export const path = kind("path", checked(anyText, [(text) => !controls.test(text), "must be the path of a folder"]));

/** Reads a browser origin such as "https://app.example". Returns undefined if the text is anything else. */
function parseOrigin(text: string): string | undefined {
  const url = URL.parse(text.trim());
  const isOrigin =
    url !== null && /^https?:$/.test(url.protocol) && url.origin === text.trim().toLowerCase().replace(/\/$/, "");
  return isOrigin ? url.origin : undefined;
}

const originsAllowed =
  "a list of origins without *, separated by commas, such as https://app.example,http://localhost:3000";

export const origins = kind(
  "origins",
  parsed(originsAllowed, (text) => {
    const all = text.split(",").map(parseOrigin);
    return all.every((each) => each !== undefined) ? all : undefined;
  }),
);

/** Largest number of headers that become tags. Each request reads all of them. */
const tagHeadersMax = 16;

/** Headers of credentials. Their values must not become tags, which rows and reports show. */
const credentialHeader = /^(?:(?:proxy-)?authorization|cookie|.*api-?key.*|.*token.*|.*secret.*)$/;

/** Reads pairs such as "x-agent-id=agent". Returns undefined if the text is anything else. */
function parseTagHeaders(text: string): readonly TagHeader[] | undefined {
  if (text === "off") return [];
  const pairs = text.split(",").map((piece): TagHeader | undefined => {
    const [, header = "", tag = ""] = /^\s*([\w!#$%&'*+.^`|~-]{1,64})=(\S+)\s*$/.exec(piece) ?? [];
    return isTagName(tag) ? { header: header.toLowerCase(), tag } : undefined;
  });
  const known = pairs.filter((pair) => pair !== undefined);
  const hasRepeats = new Set(known.map(({ header }) => header)).size < known.length;
  return known.length < pairs.length || hasRepeats || known.length > tagHeadersMax ? undefined : known;
}

export const tagHeaders = kind(
  "header=tag",
  checked(
    parsed(
      `off, or at most ${tagHeadersMax} pairs of a header and a tag, separated by commas, each header once, such as x-agent-id=agent`,
      parseTagHeaders,
    ),
    [
      (pairs) => pairs.every(({ header }) => !credentialHeader.test(header)),
      "must not name a header with a credential, because reports show tags",
    ],
  ),
);

export const timeZone = kind(
  "zone",
  checked(anyText, [isTimeZone, "must be an IANA time zone such as UTC or Europe/Berlin"]),
);

const toSecret = (text: string) => new Secret(text);

/** Credential that is sent in a header: visible ASCII without spaces. */
export const secret = kind(
  "secret",
  converted(
    checked(anyText, [
      (text) => /^[\x21-\x7e]{1,4096}$/.test(text),
      "must be one word of visible ASCII characters, without spaces",
    ]),
    toSecret,
  ),
  { secret: true },
);

/** Secret that signs webhooks: `whsec_` and base64, as in Standard Webhooks, or any word of 16 or more characters. */
export const signingSecret = kind(
  "secret",
  converted(
    checked(anyText, [
      isSigningSecret,
      "must be whsec_ and base64 of 16 bytes or more, or any other word of 16 or more visible ASCII characters",
    ]),
    toSecret,
  ),
  { secret: true },
);

function isSigningSecret(text: string): boolean {
  if (!text.startsWith("whsec_")) return /^[\x21-\x7e]{16,4096}$/.test(text);
  const encoded = text.slice("whsec_".length).replace(/=+$/, "");
  const decoded = Buffer.from(encoded, "base64");
  return decoded.length >= 16 && decoded.toString("base64").replace(/=+$/, "") === encoded;
}

const noUser = ({ username, password }: URL) => username === "" && password === "";

const url = (sample: string) => parsed(`an address such as ${sample}`, (text) => URL.parse(text) ?? undefined);

const webAddress = checked(
  url("https://gateway.example"),
  [({ protocol }) => /^https?:$/.test(protocol), "must begin with https:// or http://"],
  [noUser, "must not contain a user name or password"],
  [({ search, hash }) => search === "" && hash === "", "must not have a query or a fragment"],
);

const trimmedPath = ({ pathname }: URL) => pathname.replace(/\/+$/, "");

/**
 * Base address of the gateway, given with or without `/v1` at its end. The value contains the origin, such as
 * "https://gateway.example", and the path before `/v1`. The path is "", or a path such as "/api" without a final slash.
 */
export const gatewayAddress = kind(
  "url",
  converted(webAddress, (address) => ({
    origin: address.origin,
    basePath: trimmedPath(address).replace(/\/v1$/, ""),
  })),
);

/** Farebox's own address: origin and path, without a slash at its end. */
export const publicAddress = kind(
  "url",
  converted(webAddress, (address) => address.origin + trimmedPath(address)),
);

/** Address of a webhook. Its path and query may contain a secret. Each delivery checks the IP addresses of the host. */
export const webhookAddress = kind(
  "url",
  converted(
    checked(
      url("https://hooks.example/farebox"),
      [
        ({ protocol, hostname }) => protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname)),
        "must begin with https://; plain http only to this machine",
      ],
      [noUser, "must not contain a user name or password"],
      [({ hash }) => hash === "", "must not have a fragment"],
      [
        (address) => addressKind(hostOf(address)) === undefined || isAllowed(hostOf(address), "administrator"),
        "must not name a link-local, metadata or reserved address",
      ],
    ),
    ({ href }) => new Secret(href),
  ),
  { secret: true },
);

// oxlint-disable-next-line no-control-regex -- a path with a control character is a mistake
const notFile = /^[a-z][a-z0-9+.-]+:|[\x00-\x1f\x7f]/i;

/** Database of the ledger. Refuses addresses of other databases, so that "mysql:" does not become a file name. */
export const database = kind(
  "path",
  (text): Reading<DatabaseSetting> => {
    if (!isPostgresUrl(text)) {
      return notFile.test(text)
        ? invalid("must be the path of an SQLite file, or a postgres:// address")
        : valid({ kind: "sqlite", path: text });
    }
    const address = parsePostgresUrl(text);
    if (!address.ok) return invalid(address.problem);
    const { server } = address;
    const hasPassword = server.password !== null;
    return valid({ kind: "postgres", url: new Secret(text), shown: shownPostgres(server), hasPassword });
  },
  { fileForm: true },
);
