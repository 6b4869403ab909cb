import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { mutations } from "../../../simulation/mutations.ts";

it.each(Object.entries(mutations))(
  "the planted bug %s quotes texts that its files contain exactly once",
  (_, edits) => {
    for (const { file, from } of edits) {
      const source = readFileSync(new URL(`../../../src/${file}`, import.meta.url), "utf8");
      expect([file, from, source.split(from).length - 1]).toEqual([file, from, 1]);
    }
  },
);
