import { describe, expect, it } from "vitest";
import {
  canonicalSegments,
  hasTaskId,
  isBelow,
  isRoutedBelow,
  matchRoute,
  pathsOverlap,
  ownPaths,
  routeKinds,
  routeMethods,
  unversionedPaths,
  type RouteMethod,
  type TaskRoute,
} from "../../../src/core/task-routes.ts";

const nothing = { field: null, fixed: null };
const route = (path: string, method: RouteMethod = "POST"): TaskRoute => ({
  method,
  path,
  does: "create",
  model: nothing,
  type: nothing,
  input: null,
  taskField: null,
  keys: null,
});

it("task routes have fixed kinds, methods and reserved paths", () => {
  expect(routeKinds).toEqual(["create", "retrieve", "cancel", "list", "upload", "setting"]);
  expect(routeMethods).toEqual(["GET", "POST", "PUT", "PATCH", "DELETE"]);
  expect(ownPaths).toEqual([
    "/admin",
    "/dashboard",
    "/metrics",
    "/healthz",
    "/readyz",
    "/v1",
    "/account/info",
    "/api/v1/task",
    "/api/v1/tasks",
  ]);
  expect(unversionedPaths).toEqual([
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/responses",
    "/images",
    "/audio",
    "/messages",
    "/models",
    "/farebox",
  ]);
});

it.each([
  ["/a/{task_id}", true],
  ["/{task_id}/a", true],
  ["/a/b", false],
  ["/a/{task_id}b", false],
])("the path %s contains a task id: %s", (path, expected) => {
  expect(hasTaskId(path)).toBe(expected);
});

describe("the route of a request", () => {
  const make = route("/luma/make");
  const read = route("/luma/{task_id}", "GET");
  const more = route("/luma/{task_id}/more");
  const routes = [make, read, more];
  const found = (of: TaskRoute, taskId: string | null = null) => ({ kind: "route", route: of, taskId });
  const misspelled = (of: TaskRoute) => ({ kind: "misspelled", route: of });
  it.each<[string, string, object | undefined]>([
    ["POST", "/luma/make", found(make)],
    ["GET", "/luma/t-1", found(read, "t-1")],
    ["GET", "/luma/T-1", found(read, "T-1")],
    // A request that is close to one route may match another exactly.
    ["GET", "/luma/make", found(read, "make")],
    ["POST", "/luma/t-1/more", found(more, "t-1")],
    ["PUT", "/luma/make", misspelled(make)],
    ["POST", "/LUMA/make", misspelled(make)],
    ["POST", "/luma/make/", misspelled(make)],
    ["POST", "/luma/t-1", misspelled(read)],
    ["GET", "/luma/{task_id};x/", misspelled(read)],
    ["POST", "/luma/t-1/more/", misspelled(more)],
    ["GET", "/luma//more", misspelled(read)],
    ["POST", "/luma", undefined],
    ["POST", "/luma/t-1/less", undefined],
    ["POST", "/other/t-1/more", undefined],
    ["POST", "/", undefined],
  ])("is matched or not for %s %s", (method, path, expected) => {
    expect(matchRoute(routes, method, path)).toEqual(expected);
  });

  it("is the first route with a similar spelling", () => {
    const upper = route("/LUMA/make");
    expect(matchRoute([make, upper], "POST", "/Luma/make")).toEqual(misspelled(make));
    expect(matchRoute([make, upper], "POST", "/LUMA/make")).toEqual(found(upper));
  });
});

it.each([
  ["/a/b", "/a/b", true],
  ["/a/b", "/A/b/", true],
  ["/a/{task_id}", "/a/b", true],
  ["/a/b", "/a/{task_id}", true],
  ["/{task_id}/b", "/a/{task_id}", true],
  ["/a/b", "/a/c", false],
  ["/a/b", "/c/b", false],
  ["/a/b", "/a/b/c", false],
  ["/a/b/c", "/a/b", false],
  ["/a/{task_id}", "/b/{task_id}", false],
])("the paths %s and %s overlap: %s", (one, other, expected) => {
  expect(pathsOverlap(one, other)).toBe(expected);
});

describe("the most lenient reading of a path", () => {
  it.each<[string, string[]]>([
    ["/", []],
    ["", []],
    ["/a/b", ["a", "b"]],
    ["a//b/", ["a", "b"]],
    ["/A/É", ["a", "é"]],
    ["/a\\b", ["a", "b"]],
    ["/a/./b/../c", ["a", "c"]],
    ["/../a", ["a"]],
    ["/a/..;x/b", ["b"]],
    ["/a;x=y;z/b", ["a", "b"]],
    ["/;x/b", ["b"]],
    ["/a b\t\u0000\u200b/c", ["ab", "c"]],
    ["/\uff41", ["a"]],
    ["/%61", ["a"]],
    ["/%2561", ["a"]],
    ["/%25252561", ["a"]],
    // Escapes are decoded at most four times.
    ["/%2525252561", ["%61"]],
    ["/%c3%a9", ["é"]],
    // Invalid UTF-8 stays escaped. Escapes next to it are decoded.
    ["/%ff%61%4A%7a", ["%ffajz"]],
    ["/%f%61%8a", ["%fa%8a"]],
    ["/100%", ["100%"]],
  ])("of %j is %j", (path, segments) => {
    expect(canonicalSegments(path)).toEqual(segments);
  });
});

it.each([
  ["/v1", true],
  ["/v1/chat", true],
  ["/V1//chat", true],
  ["/x/../v1", true],
  ["/v1x", false],
  ["/x/v1", false],
  ["/", false],
])("the path %s is below /v1: %s", (path, expected) => {
  expect(isBelow(path, ["/admin", "/v1"])).toBe(expected);
});

it.each([
  ["/v1/messages", true],
  ["/v1/messages/count_tokens", true],
  ["/v1/messages-2", false],
  ["/v1/message", false],
  ["/V1/messages", false],
  ["/v1/chat/completions", false],
])("a routed path is below a prefix in the same spelling only: %s", (path, expected) => {
  expect(isRoutedBelow(path, ["/v1/messages"])).toBe(expected);
});
