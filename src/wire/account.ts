import {
  accountFigures,
  type AccountFigure,
  type AccountFigures,
  type CreditKind,
  type Credits,
} from "../core/account.ts";
import { parseUsd, type PicoUsd } from "../core/money.ts";
import type { CeilingName, TaskCeilings } from "../core/tasks.ts";
import { objectOr, storedCharsMax, storedText, type JsonObject } from "./json.ts";

/** Part of the gateway's account record that Farebox uses. Null means unknown, never 0. */
export interface Account {
  /** May be below zero. */
  readonly balance: PicoUsd | null;
  readonly credits: Credits;
  readonly plan: string | null;
  /** Kind of billing, such as `ppu`. */
  readonly type: string | null;
  readonly ceilings: TaskCeilings;
}

/**
 * Reads an account record of any shape. The position of `equivalent_in_usd` is not documented, so it is searched in `data`,
 * at the root, and in the wallet and the credit packs of both. The first amount counts.
 */
export function readAccount(record: unknown): Account {
  const root = objectOr(record);
  const data = objectOr(root["data"]);
  const packs = [data, root].map((place) => objectOr(place["credit_pack_info"]));
  const creditsOf = (kind: CreditKind) => first(packs.map((pack) => readNumber(pack[`${kind}_credits`])));
  const textOf = (name: string) => first([data, root].map((place) => readText(place[name])));
  return {
    balance: first(placesIn(root).map((place) => readUsd(place["equivalent_in_usd"]))),
    credits: {
      total: creditsOf("total"),
      used: creditsOf("used"),
      frozen: creditsOf("frozen"),
      available: creditsOf("available"),
    },
    plan: textOf("plan"),
    type: textOf("type"),
    ceilings: readCeilings(data, root),
  };
}

/** Returns the objects of an account record that can state figures. Earlier objects take precedence. */
function placesIn(root: JsonObject): readonly JsonObject[] {
  const outer = [objectOr(root["data"]), root];
  return [
    ...outer,
    ...outer.map((place) => objectOr(place["wallet"])),
    ...outer.map((place) => objectOr(place["credit_pack_info"])),
  ];
}

const ceilingFields: Readonly<Record<CeilingName, string>> = {
  all: "max_concurrent_task_count",
  suno: "max_suno_concurrency",
  luma: "max_luma_concurrency",
  kling: "max_kling_concurrency",
  flux: "max_flux_concurrency",
};

function readCeilings(...places: readonly JsonObject[]): TaskCeilings {
  const ceilingOf = (name: CeilingName) => first(places.map((place) => readNumber(place[ceilingFields[name]])));
  return {
    all: ceilingOf("all"),
    suno: ceilingOf("suno"),
    luma: ceilingOf("luma"),
    kling: ceilingOf("kling"),
    flux: ceilingOf("flux"),
  };
}

function first<T>(found: readonly (T | null)[]): T | null {
  return found.find((value) => value !== null) ?? null;
}

function readText(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? storedText(value) : null;
}

/** Returns the account's id and the figures to store. The first object that states a figure as a number counts. */
export function readAccountFigures(record: unknown): {
  readonly account: string | null;
  readonly figures: AccountFigures;
} {
  const root = objectOr(record);
  const data = objectOr(root["data"]);
  const places = placesIn(root);
  const figures: Partial<Record<AccountFigure, string>> = {};
  for (const name of accountFigures) {
    const text = places.map((place) => decimalText(place[name])).find((each) => each !== null && decimal.test(each));
    if (typeof text === "string") figures[name] = text;
  }
  const account = [data["id"], root["id"]].map(decimalText).find((id) => id !== null && /^\d{1,20}$/.test(id));
  return { account: account ?? null, figures };
}

const decimal = /^(-?)(\d+)(?:\.(\d+))?$/;

/**
 * Returns the text of a JSON number or string; null if it is too long to store.
 * Only tiny numbers need `toFixed`, because JavaScript writes them with an exponent.
 */
function decimalText(value: unknown): string | null {
  if (typeof value !== "string" && typeof value !== "number") return null;
  const isTiny = typeof value === "number" && value !== 0 && Math.abs(value) < 1e-6;
  const text = isTiny ? value.toFixed(12) : String(value).trim();
  return text.length > storedCharsMax ? null : text;
}

/** Reads an amount. Digits below one pico-USD are cut off. */
function readUsd(value: unknown): PicoUsd | null {
  const match = decimal.exec(decimalText(value) ?? "");
  if (match === null) return null;
  const [, sign, whole = "", fraction = ""] = match;
  const amount = parseUsd(fraction === "" ? whole : `${whole}.${fraction.slice(0, 12)}`);
  if (amount === undefined) return null;
  return sign === "-" ? (-amount as PicoUsd) : amount;
}

/** Reads a number, or a string that contains a decimal. */
function readNumber(value: unknown): number | null {
  const text = decimalText(value);
  const number = text !== null && (typeof value === "number" || decimal.test(text)) ? Number(text) : NaN;
  return Number.isFinite(number) ? number : null;
}
