import { describe, expect, it } from "vitest";
import { serveAdmin } from "../../../../src/server/http/admin/serve-route.ts";
import { sessionRoutes } from "../../../../src/server/http/dashboard/session-routes.ts";
import type { Route } from "../../../../src/server/http/http-app.ts";
import { latePaths, loadedLater } from "../../../../src/server/http/late-paths.ts";
import { runSessionRoutes } from "../../../../src/server/http/run-sessions.ts";
import { selfServiceRoutes } from "../../../../src/server/http/self-service.ts";
import { notForwarded, type Exchange } from "../../../../src/ports/exchange.ts";

const nothing = {} as never;

describe("the paths of routes that are loaded later", () => {
  it.each([
    ["selfService", () => selfServiceRoutes(nothing)],
    ["runSessions", () => runSessionRoutes(nothing)],
    ["admin", () => serveAdmin([], nothing)],
    ["dashboardSession", () => sessionRoutes(nothing)],
  ] as const)("are those of the loaded routes: %s", (name, routes) => {
    expect(routes().map(({ method, path }) => ({ method, path }))).toEqual(latePaths[name]);
  });
});

describe("a route that is loaded later", () => {
  const exchange = {} as Exchange;
  const route = (answered: string[]): Route => ({
    method: "get",
    path: "/a",
    async handler() {
      answered.push("a");
      return notForwarded;
    },
  });

  it("loads its file once, with the first request", async () => {
    let loads = 0;
    const answered: string[] = [];
    const [late] = loadedLater([{ method: "get", path: "/a" }], async () => {
      loads++;
      return [route(answered)];
    });
    expect(loads).toBe(0);
    await Promise.all([late?.handler(exchange), late?.handler(exchange)]);
    await late?.handler(exchange);
    expect({ loads, answered }).toEqual({ loads: 1, answered: ["a", "a", "a"] });
  });

  it("loads its file again after a failure", async () => {
    const failures = [new Error("the disk does not answer")];
    const answered: string[] = [];
    const [late] = loadedLater([{ method: "get", path: "/a" }], async () => {
      const failure = failures.pop();
      if (failure !== undefined) throw failure;
      return [route(answered)];
    });
    await expect(late?.handler(exchange)).rejects.toThrow("the disk does not answer");
    await late?.handler(exchange);
    expect(answered).toEqual(["a"]);
  });

  it("fails if its file has no such route", async () => {
    const [late] = loadedLater([{ method: "post", path: "/a" }], async () => [route([])]);
    await expect(late?.handler(exchange)).rejects.toThrow("there is no handler of post /a");
  });
});
