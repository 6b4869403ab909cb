/*
 * Fails if public price tables agree with each other but not with the shipped price files: `node scripts/prices-check.ts
 * [TABLE…]`. A table is a file or an address. Without arguments, downloads the current tables of genai-prices and litellm.
 */
import { readFileSync } from "node:fs";
import { readOutbound } from "../src/config/outbound.ts";
import { fetchText } from "../src/cli/services/price-sources.ts";
import { checkPrices } from "../src/catalogue/import/import.ts";
import { readPriceTexts } from "../src/catalogue/load.ts";
import { formatFault } from "../src/core/fault.ts";
import type { PriceTableText } from "../src/ports/price-import.ts";

const addresses = [
  "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json",
  "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json",
];

const pricing = process.env["PRICES_CHECK_FOLDER"] ?? new URL("../pricing/", import.meta.url);

process.exitCode = await check(process.argv.slice(2));

/** Returns the exit code: 0 if no price differs from both tables, 1 if a price does, 2 if the comparison failed. */
async function check(given: readonly string[]): Promise<number> {
  const tables: PriceTableText[] = [];
  for (const source of given.length > 0 ? given : addresses) {
    const read = await textOf(source);
    if (typeof read === "string") return fail(read);
    tables.push({ file: source, text: read.text });
  }
  if (tables.length < 2) return fail("one table cannot be compared with others; give at least two files or addresses");
  const texts = await readPriceTexts({ shipped: pricing });
  if (!texts.ok) return fail(...texts.faults.map(formatFault));
  const checked = checkPrices(texts.layers, { tables, from: null, today: new Date().toISOString().slice(0, 10) });
  if (!checked.ok) return fail(...checked.problems);
  const { compared, faults, missing } = checked;
  for (const { model, class: name, ours, theirs } of faults)
    process.stdout.write(
      `${model}: ${name} is ${ours ?? "not stated"} in the shipped files, but ${theirs} in both tables\n`,
    );
  if (missing.length > 0)
    process.stdout.write(`not in the shipped files, but the same in both tables: ${missing.join(", ")}\n`);
  process.stdout.write(
    `${compared} models compared, ${new Set(faults.map(({ model }) => model)).size} differ from both tables\n`,
  );
  return faults.length === 0 ? 0 : 1;
}

async function textOf(source: string): Promise<{ readonly text: string } | string> {
  if (/^https?:/.test(source)) {
    const { outbound, problems } = readOutbound(process.env, [new URL(source)]);
    if (problems.length > 0) return problems.join("; ");
    const fetched = await fetchText(source, { outbound });
    return fetched.ok ? fetched : fetched.problem;
  }
  try {
    return { text: readFileSync(source, "utf8") };
  } catch (error) {
    return `${source} cannot be read (${error instanceof Error && "code" in error ? String(error.code) : String(error)})`;
  }
}

function fail(...problems: readonly string[]): number {
  for (const problem of problems) process.stderr.write(`prices-check: ${problem}\n`);
  return 2;
}
