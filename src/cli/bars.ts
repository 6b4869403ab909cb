import type { Environment } from "../config/sources.ts";
import { noMoney, stepsOf, type PicoUsd } from "../core/money.ts";

const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;

/** Returns true if the locale is UTF-8, so that the terminal can show block characters. */
export function isUtf8Locale(env: Environment): boolean {
  const locale = env["LC_ALL"] || env["LC_CTYPE"] || env["LANG"] || "";
  return /utf-?8/i.test(locale);
}

/**
 * Draws a bar whose length is proportional to `part`. `widest` fills the whole width. With Unicode, lengths are exact
 * to an eighth of a character.
 */
export function chartBar(part: PicoUsd, widest: PicoUsd, width: number, unicode: boolean): string {
  if (!unicode) return "#".repeat(stepsOf(part, widest, width));
  const steps = stepsOf(part, widest, width * 8);
  return "█".repeat(Math.floor(steps / 8)) + (eighths[steps % 8] ?? "");
}

/** Draws a bar of fixed width for a limit. Returns its spent, held and free parts, so that each can be styled. */
export function limitBar(
  { spent, held, limit }: { readonly spent: PicoUsd; readonly held: PicoUsd; readonly limit: PicoUsd },
  width: number,
  unicode: boolean,
) {
  const full = stepsOf(spent, limit, width);
  // Fill the bar if the limit is zero and something was spent.
  const spentCells = limit <= noMoney && spent > noMoney ? width : full;
  const heldCells = stepsOf((spent + held) as PicoUsd, limit, width) - full;
  const [spentMark, heldMark, freeMark] = unicode ? ["█", "▒", "░"] : ["#", "=", "-"];
  return {
    spent: spentMark.repeat(spentCells),
    held: heldMark.repeat(Math.max(0, heldCells)),
    free: freeMark.repeat(width - spentCells - Math.max(0, heldCells)),
  };
}
