import { expect, it } from "vitest";
import { withUnit } from "../../../grafana/picture/units.ts";

it.each([
  [0, "currencyUSD", "$0"],
  [0.00123456, "currencyUSD", "$0.00123"],
  [-0.5, "currencyUSD", "-$0.5"],
  [1234.5, "currencyUSD", "$1.23K"],
  [58.5349, "currencyUSD", "$58.53"],
  [0.3836, "percentunit", "38.4%"],
  [0.0421, "s", "42.1 ms"],
  [0.00005, "s", "50 µs"],
  [1.25, "s", "1.25 s"],
  [7200, "s", "2 h"],
  [3_142_800, "s", "36.4 days"],
  [512 * 2 ** 20, "bytes", "512 MiB"],
  [12.34, "reqps", "12.3 req/s"],
  [780, "suffix: /min", "780 /min"],
  [1560, "short", "1.56K"],
  [Number.NaN, "short", "–"],
])("%d in %s is %s", (value, unit, words) => {
  expect(withUnit(value, unit)).toBe(words);
});
