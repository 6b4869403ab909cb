import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { canonicalSegments, isBelow, ownPaths } from "../../../src/core/task-routes.ts";

const source = "source: seen";
type Files = Readonly<Record<string, string>>;
const build = (...layers: readonly Files[]) =>
  buildCatalogue(layers.map((files) => Object.entries(files).map(([name, text]) => ({ name, text }))));

function routesOf(...layers: readonly Files[]) {
  const built = build(...layers);
  if (!built.ok) throw new Error(JSON.stringify(built.faults));
  return built.catalogue;
}

describe("an invalid route", () => {
  it.each<[string, string]>([
    [
      "POST /v1/images: { does: upload, source: seen }",
      '"/v1/images" is reserved for Farebox; write a path that does not begin with /admin',
    ],
    ["POST /v1: { does: upload, source: seen }", "is reserved for Farebox"],
    ["POST /V1/Images: { does: upload, source: seen }", "is reserved for Farebox"],
    ["POST /chat/completions: { does: upload, source: seen }", "is reserved for Farebox"],
    ["GET /admin/v1/keys: { does: list, source: seen }", "is reserved for Farebox"],
    ["PUT /api/v1/task: { does: upload, source: seen }", "is reserved for Farebox"],
    ["DELETE /api/v1/tasks: { does: list, source: seen }", "is reserved for Farebox"],
    ["GET /account/info: { does: list, source: seen }", "is reserved for Farebox"],
    ['"GET /{task_id}/x": { does: retrieve, source: seen }', "is reserved for Farebox"],
    ['"GET /x/{task_id}/{task_id}": { does: retrieve, source: seen }', "names a task twice; write {task_id} once"],
    ["POST x: { does: upload, source: seen }", "a method (GET, POST, PUT, PATCH, DELETE) and a path of plain segments"],
    ["TRACE /x: { does: upload, source: seen }", "a method (GET, POST, PUT, PATCH, DELETE)"],
    ["POST /x/: { does: upload, source: seen }", "a path of plain segments"],
    ["POST /x//y: { does: upload, source: seen }", "a path of plain segments"],
    ['"POST /x/{id}": { does: upload, source: seen }', "{task_id} stands for a task's id"],
    ["POST /x: { does: create, source: seen }", '"model" is missing; write the model whose task prices apply'],
    ["POST /x: { does: make, source: seen }", "create, retrieve, cancel, list, upload, setting"],
    ["POST /x: { does: retrieve, source: seen }", "must name its task exactly once"],
    ['"GET /x/{task_id}": { does: retrieve, task_field: id, source: seen }', "must name its task exactly once"],
    ["POST /x: { does: upload, model: m, source: seen }", 'has no meaning for does: upload; leave "model" out'],
    ["POST /x: { does: setting, source: seen }", '"keys" is missing; a setting applies to the whole account'],
    ["POST /x: { does: upload }", "source"],
  ])("%s", (line, message) => {
    const built = build({ "a.yaml": `routes:\n  ${line}\n` });
    expect(built.ok).toBe(false);
    const faults = built.ok ? [] : built.faults;
    expect(faults.map(({ message: text }) => text).join("\n")).toContain(message);
    expect(faults[0]).toMatchObject({ file: "a.yaml", line: 2 });
  });

  it("is reported with file and line if a request could match another route, too", () => {
    const twice = build({
      "a.yaml": `routes:\n  POST /x/y: { does: upload, ${source} }\n`,
      "b.yaml": `routes:\n\n  POST /X/y: { does: upload, ${source} }\n`,
    });
    expect(twice.ok ? [] : twice.faults).toEqual([
      expect.objectContaining({
        file: "b.yaml",
        line: 3,
        message: '"POST /x/y" is already in a.yaml, line 2; keep one of them',
      }),
    ]);
    const shadowed = build({
      "a.yaml": `routes:\n  "GET /x/{task_id}": { does: retrieve, ${source} }\n  GET /x/list: { does: list, ${source} }\n`,
    });
    expect(shadowed.ok ? [] : shadowed.faults).toEqual([
      expect.objectContaining({
        line: 3,
        message: expect.stringContaining('a request can match both this route and "GET /x/{task_id}" (a.yaml, line 2)'),
      }),
    ]);
    const later = build(
      { "a.yaml": `routes:\n  GET /x/list: { does: list, ${source} }\n` },
      { "b.yaml": `routes:\n  "GET /x/{task_id}": { does: retrieve, ${source} }\n` },
    );
    expect(later.ok ? [] : later.faults).toEqual([
      expect.objectContaining({ file: "b.yaml", message: expect.stringContaining('write "GET /x/list: null"') }),
    ]);
  });
});

describe("routes of a later file", () => {
  it("replace routes with the same method and path, and remove others with null", () => {
    const first = {
      "a.yaml": `routes:\n  POST /x: { does: create, model: one, ${source} }\n  POST /y: { does: create, model: one, ${source} }\n  PUT /y: { does: upload, ${source} }\n`,
    };
    const catalogue = routesOf(first, {
      "b.yaml": `routes:\n  POST /x: { does: create, model: two, ${source} }\n  POST /y: null\n`,
    });
    expect(catalogue.data.routes.map(({ method, path, model }) => [method, path, model.fixed])).toEqual([
      ["POST", "/x", "two"],
      ["PUT", "/y", null],
    ]);
    expect(catalogue.digest).not.toBe(routesOf(first).digest);
    // A removed route may make room for one that it would conflict with.
    expect(
      build(
        { "a.yaml": `routes:\n  GET /x/list: { does: list, ${source} }\n` },
        { "b.yaml": `routes:\n  GET /x/list: null\n  "GET /x/{task_id}": { does: retrieve, ${source} }\n` },
      ).ok,
    ).toBe(true);
  });
});

describe("a path", () => {
  const catalogue = routesOf({
    "a.yaml": `routes:\n  POST /mj/v2/imagine: { does: create, model: mj, ${source} }\n  "GET /luma/{task_id}/more": { does: retrieve, ${source} }\n`,
  });

  it("matches its route only in the exact spelling; with another spelling or method it is misspelled, not unknown", () => {
    expect(catalogue.route("POST", "/mj/v2/imagine")).toMatchObject({ kind: "route", taskId: null });
    expect(catalogue.route("GET", "/luma/a%2Db/more")).toMatchObject({ kind: "route", taskId: "a%2Db" });
    const spellings = [
      "/mj/v2/imagine/",
      "//mj/v2/imagine",
      "/MJ/V2/IMAGINE",
      "/mj/v2/%69magine",
      "/mj/v2/%2569magine",
      "/mj/v2/%252569magine",
      "/mj%2fv2%2Fimagine",
      "/mj\\v2\\imagine",
      "/mj/./v2/imagine",
      "/x/../mj/v2/imagine",
      "/mj/v2/imagine;a=b",
      "/mj;x/v2/imagine",
      "/mj/v2/imagine%20",
      "/mj/v2/imagine%00",
      "/mj/v2/imagine%09",
      "/mj/v2/imagin\u{ff45}",
    ];
    for (const path of spellings) expect(catalogue.route("POST", path), path).toMatchObject({ kind: "misspelled" });
    for (const method of ["GET", "HEAD", "PUT", "OPTIONS"])
      expect(catalogue.route(method, "/mj/v2/imagine"), method).toMatchObject({ kind: "misspelled" });
    for (const path of ["/mj/v2", "/mj/v2/imagine/x", "/mj/v2/imagin", "/luma/more", "/luma//more", "/"])
      expect(catalogue.route("POST", path), path).toBeUndefined();
  });

  it("is recognized as Farebox's own in every spelling", () => {
    for (const path of [
      "/ADMIN",
      "/admin/",
      "/%61dmin/v1",
      "/x/../admin",
      "/api/v1/task;x/t-1",
      "/api//v1/task",
      "/api/v1/tasks?",
      "/healthz%20",
    ])
      expect(isBelow(path.split("?")[0] ?? "", ownPaths), path).toBe(true);
    for (const path of ["/adminx", "/api/v1/taskx", "/api/v2/task", "/"])
      expect(isBelow(path, ownPaths), path).toBe(false);
  });

  it("has canonical segments for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(canonicalSegments(text).filter((segment) => /^\.{0,2}$|[/\\;A-Z]/.test(segment))).toEqual([]);
      }),
    );
  });
});
