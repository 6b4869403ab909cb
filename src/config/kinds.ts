import { parseDuration } from "../core/duration.ts";
import { parseUsd, type PicoUsd } from "../core/money.ts";
import {
  parseGatewayAddress,
  parseHost,
  parseOrigin,
  parsePublicAddress,
  parseWebhookAddress,
  type GatewayAddress,
} from "./addresses.ts";
import { parseDatabase, shownDatabase, type DatabaseSetting } from "./database.ts";
import { Secret } from "./secret.ts";
import { parseBytes } from "./units.ts";

export type Parsed<T> =
  | {
      readonly ok: true;
      readonly value: T;
      /** What is printed of it, where that is not its text. */
      readonly shown?: string;
      /** Whether it holds a secret, although others of its kind do not. */
      readonly holdsSecret?: boolean;
    }
  | { readonly ok: false; readonly problem: string };

/** How the text of a setting becomes a value. Problems complete the sentence "FAREBOX_X …" and never hold the text. */
export interface Kind<T> {
  /** Stands for the value in `--help`: "duration". */
  readonly placeholder: string;
  parse(text: string): Parsed<T>;
  /** Never printed, and has no flag. */
  readonly secret: boolean;
  /** Whether `FAREBOX_X_FILE` may name a file that holds the text. */
  readonly fileForm: boolean;
}

/** Far more than one primary can feed; what is above is a slip of the hand. */
const workersMax = 128;

/** A kind from a parser that answers undefined, and one sentence of what is allowed. */
function kind<T>(placeholder: string, allowed: string, parse: (text: string) => T | undefined): Kind<T> {
  return {
    placeholder,
    secret: false,
    fileForm: false,
    parse: (text) => {
      const value = parse(text);
      return value === undefined ? { ok: false, problem: `must be ${allowed}` } : { ok: true, value };
    },
  };
}

/** Milliseconds, at least `min` and at most `max` (the longest timer that Node keeps, unless given). */
export function duration(min: string, max = "24d"): Kind<number> {
  const least = parseDuration(min) ?? 0;
  const most = parseDuration(max) ?? 0;
  const allowed = `a duration from ${min} to ${max}, written as a whole number and ms, s, m, h or d, such as 30s`;
  return kind("duration", allowed, (text) => within(parseDuration(text), least, most));
}

export function bytes(min: string, max: string): Kind<number> {
  const least = parseBytes(min) ?? 0;
  const most = parseBytes(max) ?? 0;
  const allowed = `a size from ${min} to ${max}, such as 512kb, 32mb or 1gb`;
  return kind("size", allowed, (text) => within(parseBytes(text), least, most));
}

export function wholeNumber(min: number, max: number): Kind<number> {
  return kind("number", `a whole number from ${min} to ${max}`, (text) =>
    within(/^\d{1,10}$/.test(text) ? Number(text) : undefined, min, max),
  );
}

/** How many processes answer requests: a whole number, or "auto" for what the machine has room for. */
export const workerCount: Kind<number | "auto"> = kind(
  "number|auto",
  `auto, or a whole number from 1 to ${workersMax}`,
  (text) => (text === "auto" ? text : within(/^\d{1,3}$/.test(text) ? Number(text) : undefined, 1, workersMax)),
);

export function choice<const C extends string>(choices: readonly C[]): Kind<C> {
  return kind(choices.join("|"), `one of ${choices.join(", ")}`, (text) => choices.find((known) => known === text));
}

export const port: Kind<number> = { ...wholeNumber(0, 65_535), placeholder: "port" };

export const host: Kind<string> = kind(
  "host",
  "a host name or an IP address alone, such as 127.0.0.1 or ::1, without a scheme or a port",
  parseHost,
);

export const yesNo: Kind<boolean> = kind("1|0", "1 or 0", (text) => {
  if (text === "1" || text === "true") return true;
  return text === "0" || text === "false" ? false : undefined;
});

export const usdAmount: Kind<PicoUsd> = kind("usd", "an amount of USD such as 5 or 2.50, below 9 million", parseUsd);

export const path: Kind<string> = kind("path", "the path of a folder", (text) => (isPlain(text) ? text : undefined));

export const origins: Kind<readonly string[]> = kind(
  "origins",
  "a list of origins separated by commas, such as https://app.example,http://localhost:3000; * is not one",
  (text) => {
    const found = text.split(",").map((part) => parseOrigin(part.trim()));
    return found.every((origin) => origin !== undefined) ? found : undefined;
  },
);

/** A credential that is sent as a header: visible ASCII, no spaces. */
export const secret: Kind<Secret> = {
  ...kind("secret", "one word of visible ASCII characters, without spaces", (text) =>
    /^[\x21-\x7e]{1,4096}$/.test(text) ? new Secret(text) : undefined,
  ),
  secret: true,
  fileForm: true,
};

/** What webhooks are signed with: `whsec_` and base64, as Standard Webhooks writes it, or any word that is long enough. */
export const signingSecret: Kind<Secret> = {
  ...kind(
    "secret",
    "whsec_ and base64 of 16 bytes or more, or any other word of 16 or more visible ASCII characters",
    (text) => {
      const encoded = text.startsWith("whsec_") ? text.slice("whsec_".length) : null;
      if (encoded === null) return /^[\x21-\x7e]{16,4096}$/.test(text) ? new Secret(text) : undefined;
      const bytes = Buffer.from(encoded, "base64");
      return bytes.length >= 16 && bytes.toString("base64").replace(/=+$/, "") === encoded.replace(/=+$/, "")
        ? new Secret(text)
        : undefined;
    },
  ),
  secret: true,
  fileForm: true,
};

/** Who has the address of a webhook may send to it, so it is a secret itself. */
export const webhookAddress: Kind<Secret> = {
  placeholder: "url",
  secret: true,
  fileForm: true,
  parse: (text) => {
    const parsed = parseWebhookAddress(text);
    return parsed.ok ? { ok: true, value: new Secret(parsed.value.href) } : parsed;
  },
};

export const gatewayAddress: Kind<GatewayAddress> = {
  placeholder: "url",
  secret: false,
  fileForm: false,
  parse: parseGatewayAddress,
};

export const publicAddress: Kind<string> = {
  placeholder: "url",
  secret: false,
  fileForm: false,
  parse: parsePublicAddress,
};

/** Where the ledger is. A password in it is shown nowhere, and never taken from a flag: other users of the machine see those. */
export const database: Kind<DatabaseSetting> = {
  placeholder: "path",
  secret: false,
  fileForm: true,
  parse: (text) => {
    const parsed = parseDatabase(text);
    if (!parsed.ok) return parsed;
    return {
      ...parsed,
      shown: shownDatabase(parsed.value),
      holdsSecret: parsed.value.kind === "postgres" && parsed.value.hasPassword,
    };
  },
};

/** An IANA time zone; whether it exists is for the caller of `loadSettings` to say. */
export const timeZone: Kind<string> = kind("zone", "an IANA time zone such as UTC or Europe/Berlin", (text) =>
  /^[A-Za-z0-9+_/-]{1,64}$/.test(text) ? text : undefined,
);

function within(value: number | undefined, min: number, max: number): number | undefined {
  return value !== undefined && value >= min && value <= max ? value : undefined;
}

/** Without control characters (a NUL in a path is never meant). */
function isPlain(text: string): boolean {
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  return !/[\x00-\x1f\x7f]/.test(text);
}
