import { describe, expect, it } from "vitest";
import { formatRate } from "../../../src/core/money.ts";
import { tokenClasses, type TokenClass } from "../../../src/core/usage.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { priceFolders } from "../../../src/server/price-folders.ts";
import { buildOnce } from "../../support/built-catalogues.ts";
import { codeBlocks, documents, inlineCode } from "../../support/documents.ts";
import { priceFolder } from "../../support/price-files.ts";

const path = "docs/prices.md";
const page = documents.get(path) ?? "";

/** Beginning of a table of rates. Its first column has price files. */
const header = "| your files state |";

/** Model and day of tables that do not state them. */
const common = { model: "claude-opus-4-6", day: "2026-12-01" };

interface Row {
  readonly place: string;
  /** Text of the price file. */
  readonly file: string;
  readonly model: string;
  readonly day: string;
  readonly rates: Readonly<Partial<Record<TokenClass, string>>>;
}

const cellsOf = (line: string) => line.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, "").trim());

/** Returns the price file that a cell shows, or the last block of YAML before it. */
function fileOf(cell: string, before: string): string {
  if (cell === "nothing") return "{}\n";
  if (cell !== "the example above") return `${inlineCode(cell).join("\n")}\n`;
  return codeBlocks(before).findLast(({ language }) => language === "yaml")?.code ?? "";
}

function rowsOf(text: string): Row[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    if (!line.startsWith(header)) return [];
    const names = cellsOf(line).map((name) => name.replaceAll("`", ""));
    const end = lines.indexOf("", index);
    return lines.slice(index + 2, end).map((row, offset): Row => {
      const cells = cellsOf(row);
      const cellOf = (name: string) => cells[names.indexOf(name)];
      const rates = tokenClasses.flatMap((name) => (names.includes(name) ? [[name, cellOf(name)]] : []));
      const file = fileOf(cells[0] ?? "", lines.slice(0, index).join("\n"));
      const { model = common.model, day = common.day } = { model: cellOf("model"), day: cellOf("day") };
      return { place: `${path}:${index + offset + 3}`, file, model, day, rates: Object.fromEntries(rates) };
    });
  });
}

/** Returns the charged rates of a model in a prompt of one token. */
async function ratesOf({ file, model, day }: Pick<Row, "file" | "model" | "day">) {
  using folder = priceFolder(file);
  const loaded = await loadCatalogue(priceFolders({ preset: "piapi", folder: folder.path }), buildOnce);
  if (!loaded.ok) throw new Error(loaded.faults.map(({ message }) => message).join("\n"));
  return loaded.catalogue.find(model, Date.parse(day))?.price?.version.tiers[0].charged;
}

const rows = rowsOf(page);

it("the tables of rates have many rows", () => {
  expect(rows.length).toBeGreaterThan(12);
});

describe("the rates at", () => {
  it.each(rows)("$place are those of the price file", async (row) => {
    const charged = await ratesOf(row);
    const names = Object.keys(row.rates) as TokenClass[];
    expect(names.length).toBeGreaterThan(1);
    expect(Object.fromEntries(names.map((name) => [name, charged && formatRate(charged[name])]))).toEqual(row.rates);
  });
});

it("states how much too expensive cached input of claude-opus-5-5 is by default", async () => {
  const model = { model: "claude-opus-5-5", day: common.day };
  const byDefault = await ratesOf({ ...model, file: "{}\n" });
  const official = await ratesOf({ ...model, file: "gateway: { cached_input: official }\n" });
  expect(official && byDefault && byDefault.cached_input / official.cached_input).toBe(20n);
  expect(page).toContain("charged 20 times too much");
});
