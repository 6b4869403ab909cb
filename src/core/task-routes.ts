/** Kinds of gateway routes other than the fixed paths. */
export const routeKinds = ["create", "retrieve", "cancel", "list", "upload", "setting"] as const;
export type RouteKind = (typeof routeKinds)[number];

export const routeMethods = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
export type RouteMethod = (typeof routeMethods)[number];

/** Source of a name in a creation: a field of its body, else the price file. Null for neither. */
export interface NameSource {
  readonly field: string | null;
  readonly fixed: string | null;
}

/** One route of a price file. Plain data: it is sent between threads and processes. */
export interface TaskRoute {
  readonly method: RouteMethod;
  /** Path as written: "/api/luma/v1/video/{task_id}/extend". Also the route's name in charges and metrics. */
  readonly path: string;
  readonly does: RouteKind;
  readonly model: NameSource;
  readonly type: NameSource;
  /** The field of the body whose members a price's `field` names; null for the body itself. */
  readonly input: string | null;
  /** Field of the body, or of a GET query, that names the requested tasks; null where the path names them. */
  readonly taskField: string | null;
  /** Names of the keys that may use it; null for all. */
  readonly keys: readonly string[] | null;
}

export type RouteMatch =
  | {
      readonly kind: "route";
      readonly route: TaskRoute;
      /** The path's segment at `{task_id}`, as it came; null where it has none. */ readonly taskId: string | null;
    }
  /** A route's path in another spelling, or with another method: a gateway might accept it as the route. */
  | { readonly kind: "misspelled"; readonly route: TaskRoute };

const variable = "{task_id}";

export function hasTaskId(path: string): boolean {
  return path.split("/").includes(variable);
}

/** Returns the route of a request; undefined for a path of none. */
export function matchRoute(routes: readonly TaskRoute[], method: string, path: string): RouteMatch | undefined {
  const written = path.split("/").slice(1);
  const canonical = canonicalSegments(path);
  let misspelled: TaskRoute | undefined;
  for (const route of routes) {
    const pattern = route.path.split("/").slice(1);
    if (!matches(pattern.map(canonicalSegment), canonical)) continue;
    if (route.method === method && matches(pattern, written)) {
      const at = pattern.indexOf(variable);
      return { kind: "route", route, taskId: at === -1 ? null : (written[at] ?? null) };
    }
    misspelled ??= route;
  }
  return misspelled && { kind: "misspelled", route: misspelled };
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((segment, index) => segment === segments[index] || (segment === variable && segments[index] !== ""))
  );
}

/** Reports that some path matches both patterns. */
export function overlap(one: string, other: string): boolean {
  const [a, b] = [canonicalSegments(one), canonicalSegments(other)];
  return (
    a.length === b.length &&
    a.every((segment, index) => segment === b[index] || segment === variable || b[index] === variable)
  );
}

/** Most levels of nested escapes that are decoded. */
const decodingsMax = 4;

/**
 * Returns the segments of a path as the most lenient gateway may read it: without regard to letter case, escapes, doubled and trailing
 * slashes, dot segments, parameters after a semicolon and white space. Two paths that differ for it are different everywhere.
 */
export function canonicalSegments(path: string): string[] {
  let text = path;
  for (let round = 0; round < decodingsMax && text.includes("%"); round++) text = decoded(text);
  const segments: string[] = [];
  for (const part of text.split(/[/\\]/)) {
    const segment = canonicalSegment(part);
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment);
  }
  return segments;
}

/** An invalid escape stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(/%[0-7][0-9a-f]/gi, (escape) => decodeURIComponent(escape));
  }
}

function canonicalSegment(part: string): string {
  const [segment = ""] = part.split(";");
  return segment
    .normalize("NFKC")
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, "")
    .toLowerCase();
}

/** Path prefixes that Farebox serves itself: no route of a price file replaces them. */
export const ownPaths = [
  "/admin",
  "/dashboard",
  "/metrics",
  "/healthz",
  "/readyz",
  "/v1",
  "/account/info",
  "/api/v1/task",
  "/api/v1/tasks",
];

/** Paths that also exist below `/v1`, for clients whose base address lacks it. */
export const unversionedPaths = [
  "/chat/completions",
  "/completions",
  "/embeddings",
  "/responses",
  "/images",
  "/audio",
  "/models",
  "/farebox",
];

/** Reports that a path, in any spelling, is one of these or below one. */
export function isBelow(path: string, beginnings: readonly string[]): boolean {
  const canonical = `/${canonicalSegments(path).join("/")}`;
  return beginnings.some((beginning) => canonical === beginning || canonical.startsWith(`${beginning}/`));
}
