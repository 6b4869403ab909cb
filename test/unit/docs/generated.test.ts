import { expect, it } from "vitest";
import { generatedPages, withGenerated } from "../../../scripts/docs/generated.ts";
import { documents } from "../../support/documents.ts";

it.each(generatedPages)("docs/%s is current; if not, run npm run docs", (page) => {
  const text = documents.get(`docs/${page}`) ?? "";
  expect(text).toBe(withGenerated(page, text));
});

it("a page without markers for its generated part is refused", () => {
  expect(() => withGenerated("settings.md", "# Settings\n")).toThrow('docs/settings.md has no part "settings"');
});
