import {
  accountFigures,
  type AccountFigure,
  type AccountFigures,
  type CreditKind,
  type Credits,
} from "../core/account.ts";
import type { StatedError } from "../core/settlement.ts";
import { parseUsd, type PicoUsd } from "../core/money.ts";
import type { CeilingName, TaskCeilings } from "../core/tasks.ts";
import { isObject, objectOr, storedCharsMax, storedText, type JsonObject } from "./json.ts";
import { isAbsent, readStatedError } from "./stated-error.ts";

/** Values that Farebox reads from the gateway's account record. Null means unknown, never 0. */
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
 * Returns the reason why an answer with status 200 is no account record: the error that it states, or `no_record`.
 * Returns undefined if it is one.
 */
export function accountFault(answer: unknown): StatedError | "no_record" | undefined {
  if (!isObject(answer)) return "no_record";
  // The data may state that the account has expired, which is no error of the answer.
  const { data, ...envelope } = answer;
  const hasFigure = statesFigure(answer);
  const error = readStatedError(hasFigure ? envelope : answer, true);
  if (error !== undefined) return error;
  const hasData = "data" in answer ? isObject(data) && !isAbsent(data) : hasFigure;
  return hasData ? undefined : "no_record";
}

/** Returns true if a record contains anything that Farebox reads, other than `type`, which an error may also have. */
function statesFigure(record: JsonObject): boolean {
  const { balance, credits, plan, ceilings } = readAccount(record);
  const { account, figures } = readAccountFigures(record);
  const values = [balance, plan, account, ...Object.values(credits), ...Object.values(ceilings)];
  return values.some((value) => value !== null) || Object.keys(figures).length > 0;
}

/**
 * Reads an account record of any shape. The gateway does not document the position of `equivalent_in_usd`. Farebox
 * searches `data` and the root, then the wallets and credit packs of both, and then all other objects, the outermost
 * first. The first amount counts.
 */
export function readAccount(record: unknown): Account {
  const root = objectOr(record);
  const data = objectOr(root["data"]);
  const packs = [data, root].map((holder) => objectOr(holder[packField]));
  const creditsOf = (kind: CreditKind) => first(packs.map((pack) => readNumber(pack[`${kind}_credits`])));
  const textOf = (name: string) => first([data, root].map((holder) => readText(holder[name])));
  return {
    balance: balanceIn(root)?.amount ?? null,
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

/** Returns the objects in an account record that can contain figures. Earlier objects take precedence. */
function figureObjects(root: JsonObject): readonly JsonObject[] {
  const outer = [objectOr(root["data"]), root];
  return [
    ...outer,
    ...outer.map((object) => objectOr(object["wallet"])),
    ...outer.map((object) => objectOr(object[packField])),
  ];
}

const packField = "credit_pack_info";
export const balanceField = "equivalent_in_usd" satisfies AccountFigure;

/** Largest number of objects and lists that are searched for the balance, and their largest depth. */
const objectsMax = 10_000;
const depthMax = 32;

/** Balance in a record, with the object that states it. */
interface Balance {
  readonly amount: PicoUsd;
  readonly object: JsonObject;
  /** Names of the members, and indexes in lists, that lead to the object. */
  readonly path: readonly string[];
}

/** Finds the balance in a record. Returns undefined if no object states it. */
export function balanceIn(root: JsonObject): Balance | undefined {
  const usualPaths = [["data"], [], ["data", "wallet"], ["wallet"], ["data", packField], [packField]];
  const places = usualPaths.map((path) => ({
    path,
    value: path.reduce<unknown>((at, name) => objectOr(at)[name], root),
  }));
  // Objects are searched in the order of their depth, because the loop appends the members of each.
  places.push({ path: [], value: root });
  for (const { path, value } of places) {
    if (typeof value !== "object" || value === null) continue;
    const amount = isObject(value) ? readUsd(value[balanceField]) : null;
    if (amount !== null && isObject(value)) return { amount, object: value, path };
    if (places.length >= objectsMax || path.length >= depthMax || usualPaths.includes(path)) continue;
    for (const [name, inner] of Object.entries(value))
      if (typeof inner === "object") places.push({ path: [...path, name], value: inner });
  }
  return undefined;
}

const ceilingFields: Readonly<Record<CeilingName, string>> = {
  all: "max_concurrent_task_count",
  suno: "max_suno_concurrency",
  luma: "max_luma_concurrency",
  kling: "max_kling_concurrency",
  flux: "max_flux_concurrency",
};

function readCeilings(...objects: readonly JsonObject[]): TaskCeilings {
  const ceilingOf = (name: CeilingName) => first(objects.map((object) => readNumber(object[ceilingFields[name]])));
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

/**
 * Returns the account's id and the figures to store. The id is null if it is missing. If several objects state a
 * figure, the first one counts.
 */
export function readAccountFigures(record: unknown): {
  readonly account: string | null;
  readonly figures: AccountFigures;
} {
  const root = objectOr(record);
  const data = objectOr(root["data"]);
  const objects = figureObjects(root);
  const balance = balanceIn(root);
  const figures: Partial<Record<AccountFigure, string>> = {};
  for (const name of accountFigures) {
    const holders = name === balanceField && balance !== undefined ? [balance.object] : objects;
    const text = holders
      .map((object) => numberOrText(object[name]))
      .find((each) => each !== null && decimal.test(each));
    if (typeof text === "string") figures[name] = text;
  }
  const account = [data["id"], root["id"]].map(numberOrText).find((id) => id !== null && /^\d{1,20}$/.test(id));
  return { account: account ?? null, figures };
}

const decimal = /^(-?)(\d+)(?:\.(\d+))?$/;

/**
 * Returns a JSON number or string as text; null for any other value, or if the text is too long to store. Only tiny
 * numbers need `toFixed`, because JavaScript writes them with an exponent.
 */
function numberOrText(value: unknown): string | null {
  if (typeof value !== "string" && typeof value !== "number") return null;
  const isTiny = typeof value === "number" && value !== 0 && Math.abs(value) < 1e-6;
  const text = isTiny ? value.toFixed(12) : String(value).trim();
  return text.length > storedCharsMax ? null : text;
}

/** Reads an amount in USD; null if the value is not a decimal. Cuts off digits below one pico-USD. */
function readUsd(value: unknown): PicoUsd | null {
  const match = decimal.exec(numberOrText(value) ?? "");
  if (match === null) return null;
  const [, sign, whole = "", fraction = ""] = match;
  const amount = parseUsd(fraction === "" ? whole : `${whole}.${fraction.slice(0, 12)}`);
  if (amount === undefined) return null;
  return sign === "-" ? (-amount as PicoUsd) : amount;
}

/** Reads a number, or a string that contains a decimal; null for any other value. */
function readNumber(value: unknown): number | null {
  const text = numberOrText(value);
  const number = text !== null && (typeof value === "number" || decimal.test(text)) ? Number(text) : NaN;
  return Number.isFinite(number) ? number : null;
}
