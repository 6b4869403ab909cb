import { existsSync, globSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { expect, it } from "vitest";
import { anchors, checkout, documents, prose } from "../../support/documents.ts";

/** Returns the targets that a page links to or shows, outside of code. */
function targetsOf(text: string): string[] {
  const plain = prose(text).replace(/`[^`\n]*`/g, "`");
  return [
    ...plain.matchAll(/\]\(([^)\s]+)[^)]*\)/g),
    ...plain.matchAll(/\b(?:src|srcset|href)="([^"\s]+)"/g),
    ...plain.matchAll(/^\[[^\]]+\]: (\S+)/gm),
  ].map(([, target = ""]) => target);
}

/** Returns why a link is broken, or null. */
function faultOf(page: string, target: string): string | null {
  if (/^(?:https?|mailto):/.test(target)) return null;
  const [path = "", anchor] = target.split("#");
  const there = path === "" ? page : posix.normalize(posix.join(posix.dirname(page), path));
  if (there.startsWith("..") || !existsSync(checkout + there)) return `${page}: ${target}: there is no ${there}`;
  const document = documents.get(there);
  if (anchor === undefined || document === undefined) return null;
  return anchors(document).has(anchor) ? null : `${page}: ${target}: ${there} has no heading #${anchor}`;
}

it("every link points to an existing file and heading", () => {
  const links = [...documents].flatMap(([page, text]) => targetsOf(text).map((target) => [page, target] as const));
  expect(links.length).toBeGreaterThan(200);
  expect(links.flatMap(([page, target]) => faultOf(page, target) ?? [])).toEqual([]);
});

it("the check of links finds a wrong file and a wrong anchor", () => {
  expect(targetsOf('[a](b.md) `[c](d.md)` <img src="e.png">')).toEqual(["b.md", "e.png"]);
  expect(faultOf("docs/metrics.md", "none.md")).toContain("there is no docs/none.md");
  expect(faultOf("docs/metrics.md", "alerts.md#none")).toContain("has no heading #none");
  expect(faultOf("docs/metrics.md", "#labels")).toBeNull();
});

it("the index of the documents names every page", () => {
  const index = documents.get("docs/README.md") ?? "";
  const named = new Set(targetsOf(index).map((target) => `docs/${target.split("#")[0]}`));
  const pages = [...documents.keys()].filter((page) => /^docs\/[^/]+\.md$/.test(page) && page !== "docs/README.md");
  expect(pages.filter((page) => !named.has(page))).toEqual([]);
});

it("every page named in code or a manifest exists", () => {
  const files = globSync(["src/**/*.{ts,sql}", "deploy/**/*.*", "grafana/prometheus/*.yml", "*.yaml", "Dockerfile"], {
    cwd: checkout,
  });
  const named = files.flatMap((file) =>
    [...readFileSync(checkout + file, "utf8").matchAll(/\bdocs\/[\w./-]+\.(?:md|yaml|json)\b/g)].map(([page]) => [
      file,
      page,
    ]),
  );
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter(([, page]) => !existsSync(`${checkout}${page}`))).toEqual([]);
});
