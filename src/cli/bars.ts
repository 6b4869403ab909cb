import type { Environment } from "../config/sources.ts";
import { noMoney, stepsOf, type PicoUsd } from "../core/money.ts";

const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;

/** True if a terminal shows more than ASCII, by its locale. */
export function isUnicode(env: Environment): boolean {
  const locale = env["LC_ALL"] || env["LC_CTYPE"] || env["LANG"] || "";
  return /utf-?8/i.test(locale);
}

/** A bar as long as its share of the widest one, to an eighth of a character where the terminal has such. */
export function chartBar(part: PicoUsd, widest: PicoUsd, width: number, unicode: boolean): string {
  if (!unicode) return "#".repeat(stepsOf(part, widest, width));
  const steps = stepsOf(part, widest, width * 8);
  return "█".repeat(Math.floor(steps / 8)) + (eighths[steps % 8] ?? "");
}

/** A bar of what is spent and held of a limit, always as wide. */
export function limitBar(
  { spent, held, limit }: { readonly spent: PicoUsd; readonly held: PicoUsd; readonly limit: PicoUsd },
  width: number,
  unicode: boolean,
) {
  const full = stepsOf(spent, limit, width);
  // A limit of nothing, and more than the limit, is a full bar.
  const spentCells = limit <= noMoney && spent > noMoney ? width : full;
  const heldCells = stepsOf((spent + held) as PicoUsd, limit, width) - full;
  const [spentMark, heldMark, restMark] = unicode ? ["█", "▒", "░"] : ["#", "=", "-"];
  return {
    spent: spentMark.repeat(spentCells),
    held: heldMark.repeat(Math.max(0, heldCells)),
    rest: restMark.repeat(width - spentCells - Math.max(0, heldCells)),
  };
}
