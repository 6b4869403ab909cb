import { describe, expect, it } from "vitest";
import { codeBlocks, documents } from "../../support/documents.ts";

const readme = documents.get("README.md") ?? "";
const lines = codeBlocks(readme).flatMap(({ code }) => code.split("\n").map((line) => line.replace(/ +#.*$/, "")));
const headings = [...readme.matchAll(/^## (.*)$/gm)].map(([, heading = ""]) => heading);

describe("README.md", () => {
  it("has the command that shows Farebox at work, and the one that tests it", () => {
    expect(lines).toContain("npm ci && npm run demo -- --once");
    expect(lines).toContain("npm ci && npm test");
  });

  it("says what Farebox is, shows it, and gets to a first request before anything else", () => {
    expect(readme.indexOf("<picture>")).toBeLessThan(400);
    expect(headings.slice(0, 3)).toEqual(["Quickstart", "Four proofs", "Next to LiteLLM, Bifrost and Portkey"]);
  });

  it("can be read in two minutes and a half", () => {
    // 250 words a minute, and tables are skimmed.
    const words = readme.replace(/```[^]*?```|<picture>[^]*?<\/picture>|\]\([^)]*\)/g, "").match(/\p{L}[\p{L}’'-]*/gu);
    expect(words?.length).toBeLessThan(1000);
  });
});
