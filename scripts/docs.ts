import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { generatedPages, withGenerated } from "./docs/generated.ts";

/* Writes the parts of docs/ that are generated from code: `npm run docs`. A test fails if a page is out of date. */

for (const page of generatedPages) {
  const path = fileURLToPath(new URL(`../docs/${page}`, import.meta.url));
  writeFileSync(path, withGenerated(page, readFileSync(path, "utf8")));
}
