import type { Route } from "./http-app.ts";

/** Path of the admin API. */
export const adminBase = "/admin/v1";

/** Method and path of a route, in Express' form. */
type RouteName = Pick<Route, "method" | "path">;

const get = (path: string): RouteName => ({ method: "get", path });
const post = (path: string): RouteName => ({ method: "post", path });
const remove = (path: string): RouteName => ({ method: "delete", path });
const all = (path: string): RouteName => ({ method: "all", path });

/** Routes whose handlers are loaded with the first request that needs one of them. */
export const latePaths = {
  selfService: [
    get("/v1/farebox/me"),
    get("/v1/farebox/overview"),
    get("/v1/farebox/requests/live"),
    get("/v1/farebox/charges"),
    get("/v1/farebox/charges/:id"),
    get("/v1/farebox/refusals"),
    get("/v1/farebox/refusals/causes"),
    post("/v1/farebox/raises"),
  ],
  runSessions: [post("/v1/farebox/sessions"), get("/v1/farebox/sessions/:id"), remove("/v1/farebox/sessions/:id")],
  admin: [all(adminBase), all(`${adminBase}/*rest`)],
  dashboardSession: [get("/dashboard/session"), post("/dashboard/session"), remove("/dashboard/session")],
} as const;

/**
 * Returns routes that load their handlers with the first request. `load` must return a route of each name. If it fails,
 * the next request tries again.
 */
export function loadedLater(names: readonly RouteName[], load: () => Promise<readonly Route[]>): readonly Route[] {
  let loading: Promise<readonly Route[]> | null = null;
  const loaded = (): Promise<readonly Route[]> =>
    (loading ??= load().catch((error: unknown) => {
      loading = null;
      throw error;
    }));
  return names.map(({ method, path }) => ({
    method,
    path,
    async handler(exchange) {
      const route = (await loaded()).find((each) => each.method === method && each.path === path);
      if (route === undefined) throw new Error(`there is no handler of ${method} ${path}`);
      return route.handler(exchange);
    },
  }));
}
