import { parseUsd, type PicoUsd } from "../core/money.ts";
import { objectOr } from "./json.ts";

/** What Farebox uses of the gateway's account record. Null is unknown, never 0. */
export interface Account {
  /** May be below zero. */
  readonly balance: PicoUsd | null;
  /** In the gateway's own credits, as it stated them. */
  readonly availableCredits: number | null;
  readonly plan: string | null;
}

/**
 * Reads an account record of any shape. The place of `equivalent_in_usd` is not documented: clients find it in `data`,
 * some at the root.
 */
export function readAccount(record: unknown): Account {
  const root = objectOr(record);
  const data = objectOr(root["data"]);
  const credits = [data, root].map((place) => objectOr(place["credit_pack_info"])["available_credits"]);
  return {
    balance: readUsd(data["equivalent_in_usd"]) ?? readUsd(root["equivalent_in_usd"]),
    availableCredits: credits.map(readNumber).find((value) => value !== null) ?? null,
    plan: [data["plan"], root["plan"]].find((value) => typeof value === "string" && value !== "") as string | undefined ?? null,
  };
}

const decimal = /^(-?)(\d+)(?:\.(\d+))?$/;

/** An amount as JSON carries it, a number or its text; what is finer than a pico-USD is cut off. */
function readUsd(value: unknown): PicoUsd | null {
  if (typeof value !== "string" && typeof value !== "number") return null;
  // A number's own shortest text is what was sent; only a tiny one is written with an exponent.
  const isTiny = typeof value === "number" && Math.abs(value) < 1e-6;
  const match = decimal.exec(isTiny ? value.toFixed(12) : String(value).trim());
  if (match === null) return null;
  const [, sign, whole = "", fraction = ""] = match;
  const amount = parseUsd(fraction === "" ? whole : `${whole}.${fraction.slice(0, 12)}`);
  if (amount === undefined) return null;
  return sign === "-" ? (-amount as PicoUsd) : amount;
}

function readNumber(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
