import { describe, expect, it } from "vitest";
import { z } from "zod";
import { adminRoutes } from "../../../../src/server/http/admin/routes.ts";
import { readQuery } from "../../../../src/server/http/admin/read-input.ts";

const queries = adminRoutes("1").flatMap(({ path, query }) => (query === null ? [] : [{ path, query }]));

function problemOf(schema: z.ZodObject, query: string): string {
  const read = readQuery(query, schema);
  return !read.ok && "message" in read.refusal ? read.refusal.message : "";
}

describe("a mistyped value of a query parameter is answered with the valid one", () => {
  it("if the parameter has a list of values", () => {
    const chosen = queries.flatMap(({ path, query }) => {
      const { properties = {}, required = [] } = z.toJSONSchema(query, { io: "input", unrepresentable: "any" });
      return Object.entries(properties).flatMap(([name, property]) => {
        const values = typeof property === "object" ? (property.enum ?? []) : [];
        const longest = values.map(String).toSorted((a, b) => b.length - a.length)[0];
        const others = required
          .filter((other) => other !== name)
          .map((other) => `&${other}=all`)
          .join("");
        return longest === undefined ? [] : [{ path, query, asked: `${name}=${longest}x${others}`, name, longest }];
      });
    });
    expect(chosen.length).toBeGreaterThan(15);
    for (const { path, query, asked, name, longest } of chosen)
      expect([path, problemOf(query, asked)]).toEqual([
        path,
        expect.stringMatching(new RegExp(`^'${name}' must be .*; did you mean "${longest}"\\?$`)),
      ]);
  });

  it("if the parameter is an instant", () => {
    const spans = queries.filter(({ query }) => "since" in query.shape);
    expect(spans.length).toBeGreaterThan(6);
    for (const { query } of spans) {
      expect(problemOf(query, "since=lst-month")).toMatch(/; did you mean "last-month"\?$/);
      expect(problemOf(query, "since=sometime")).toMatch(/T08:00:00Z\.$/);
    }
  });

  it("if the parameter is a list of dimensions", () => {
    const usage = queries.find(({ path }) => path === "/usage")?.query ?? z.object();
    expect(problemOf(usage, "by=team,kye")).toMatch(/separated by commas; did you mean "key"\?$/);
    expect(problemOf(usage, "by=team,team")).toMatch(/separated by commas\.$/);
  });
});
