import { readFileSync, readdirSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseDocument, stringify } from "yaml";
import { z } from "zod";
import { readYaml } from "../../../src/platform/yaml.ts";
import { runs } from "../../support/effort.ts";

const kind = { noun: "a file", schema: z.any() };
const pricing = new URL("../../../pricing/", import.meta.url);

/** Returns the value from the parser that tracks positions, or null for an invalid text. */
function placed(text: string): { readonly value: unknown } | null {
  const document = parseDocument(text, { version: "1.2", prettyErrors: false, logLevel: "error" });
  if (document.errors.length + document.warnings.length > 0) return null;
  try {
    return { value: document.toJS() ?? {} };
  } catch {
    return null;
  }
}

/** Pieces of YAML syntax, to be joined in any order. */
const pieces = fc.constantFrom(
  ..."a|b|: |- |\n|\n  |\n    |{ |}|[|]|, |, |\"|'|#| #|? |&x |*x|<<: |!!str |---|...|%YAML 1.1|\t|~|null|true|no|1|0x1f|0o17|1_000|1e3|.5|-.inf|.nan|2026-11-22|\"1.50\"|'it''s'|>-|@|`|__proto__: |\\u0041".split(
    "|",
  ),
  "|\n",
);

describe("a YAML file", () => {
  it("has the same values from both parsers, for every shipped price file", () => {
    for (const name of readdirSync(pricing).filter((each) => each.endsWith(".yaml"))) {
      const text = readFileSync(new URL(name, pricing), "utf8");
      expect(readYaml(name, text, kind).value).toEqual(placed(text)?.value);
    }
  });

  it("has the same values from both parsers, for any value written as YAML", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }),
        fc.boolean(),
        (value, isFlow) => {
          const text = stringify(value, { collectionStyle: isFlow ? "flow" : "any" });
          const read = readYaml("any.yaml", text, kind);
          expect([read.faults, read.value]).toEqual([[], placed(text)?.value]);
        },
      ),
      { numRuns: runs(1_000) },
    );
  });

  it("has the same values from both parsers or a fault, for any text", () => {
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 14 }), (parts) => {
        const text = parts.join("");
        const read = readYaml("any.yaml", text, kind);
        const expected = placed(text);
        if (read.faults.length === 0 && expected !== null && typeof expected.value === "object")
          expect(read.value).toEqual(expected.value);
      }),
      { numRuns: runs(10_000) },
    );
  });

  it("is refused if its aliases would expand to gigabytes", () => {
    const lines = Array.from({ length: 30 }, (_, index) => `a${index + 1}: &x${index + 1} [*x${index}, *x${index}]`);
    const { faults } = readYaml("bomb.yaml", `a0: &x0 [1]\n${lines.join("\n")}\n`, kind);
    expect(faults.map(({ message }) => message)).toEqual([expect.stringContaining("cannot be read as YAML")]);
  });
});
