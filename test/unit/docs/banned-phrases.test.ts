import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { checkout } from "../../support/documents.ts";

const phrases = readFileSync(`${checkout}.cspell/banned-phrases.txt`, "utf8").trim().split("\n");

/** Matches the phrases, even across a line break and the start of the next comment line. */
const banned = new RegExp(`\\b(?:${phrases.map((each) => each.replaceAll(" ", "[\\s*/#>-]+")).join("|")})\\b`, "gi");

const bannedIn = (text: string) => [...text.matchAll(banned)].map(([phrase]) => phrase);

/** Text files of the repository, except migrations and published requests, which must not be edited. */
const files = globSync(
  ["*.{md,json,yaml}", "{.ci,.github,bench,bin,deploy,docs,grafana,pricing,scripts,simulation,src,test}/**/*"],
  {
    cwd: checkout,
    withFileTypes: true,
    exclude: [
      "**/{node_modules,.python,.others}/**",
      "src/ledger/migrations/**",
      "test/fixtures/published-counts/**",
      "package-lock.json",
      "cspell.config.yaml",
    ],
  },
)
  .filter((entry) => entry.isFile() && !/\.(?:png|gz|db|tgz)$/.test(entry.name))
  .map(({ parentPath, name }) => `${parentPath}/${name}`);

it("no file contains a banned phrase of several words, which the spell checker cannot find", () => {
  expect(files.length).toBeGreaterThan(1000);
  const found = files.flatMap((file) =>
    bannedIn(readFileSync(file, "utf8")).map((phrase) => `${file.slice(checkout.length)}: ${phrase}`),
  );
  expect(found).toEqual([]);
});

it.each(phrases)("the check finds %j in upper case and across lines", (phrase) => {
  const [first, ...rest] = phrase.split(" ");
  const texts = [
    phrase.toUpperCase(),
    `a ${phrase}, b`,
    `${first}\n   * ${rest.join(" ")}`,
    `${first}\n// ${rest.join("\n")}`,
  ];
  expect(texts.map((text) => bannedIn(text).length)).toEqual([1, 1, 1, 1]);
  expect(bannedIn(`${first}s ${rest.join(" ")}; ${phrase}x`)).toEqual([]);
});
