import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Root of the checkout. */
export const checkout = fileURLToPath(new URL("../../", import.meta.url));

/** All published pages, by path in the checkout. */
export const documents: ReadonlyMap<string, string> = new Map(
  globSync(["*.md", "docs/**/*.md", "bench/*.md", "grafana/**/*.md", "deploy/**/*.md"], { cwd: checkout })
    .toSorted()
    .map((path) => [path, readFileSync(checkout + path, "utf8")]),
);

const fence = /^( *)(`{3,})(\S*)[^\n]*\n([^]*?)^\1\2 *$/gm;

interface CodeBlock {
  readonly language: string;
  /** Text with its indentation. */
  readonly code: string;
  /** Line of the opening fence. */
  readonly line: number;
}

/** Returns the fenced code of a page. */
export function codeBlocks(text: string): readonly CodeBlock[] {
  return [...text.matchAll(fence)].map(({ 3: language = "", 4: code = "", index }) => ({
    language,
    code,
    line: text.slice(0, index).split("\n").length,
  }));
}

/** Returns a page without its fenced code. */
export function prose(text: string): string {
  return text.replace(fence, "");
}

/** Returns the texts between single backticks. */
export function inlineCode(text: string): readonly string[] {
  return [...prose(text).matchAll(/(?<!`)`([^`\n]+)`(?!`)/g)].map(([, code = ""]) => code);
}

/** Returns the anchors of a page's headings, as GitHub generates them. */
export function anchors(text: string): ReadonlySet<string> {
  const seen = new Map<string, number>();
  const headings = [...prose(text).matchAll(/^#{1,6} +(.*?) *$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((heading) => {
      const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("`", "");
      const slug = plain
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, "")
        .replaceAll(" ", "-");
      const before = seen.get(slug) ?? 0;
      seen.set(slug, before + 1);
      return before === 0 ? slug : `${slug}-${before}`;
    }),
  );
}
