import { configureGlobal, readConfigureGlobal } from "fast-check";

/*
 * Setup of all tests: random cases have the same seed in every run. FAREBOX_TEST_SEED is another seed, or `random` for
 * new cases. The random seed is printed, so that the run can be repeated.
 */

function seedOf(text = "20261120"): number {
  if (text !== "random") {
    if (!/^-?\d{1,9}$/.test(text)) throw new Error(`FAREBOX_TEST_SEED must be a whole number or random, not "${text}"`);
    return Number(text);
  }
  const seed = Math.floor(Math.random() * 1e9);
  process.stdout.write(`random cases of this process: FAREBOX_TEST_SEED=${seed}\n`);
  // Later files of this process and its children use the same seed.
  process.env["FAREBOX_TEST_SEED"] = String(seed);
  return seed;
}

export const seed = seedOf(process.env["FAREBOX_TEST_SEED"]);
configureGlobal({ ...readConfigureGlobal(), seed });
