import { unversionedPaths } from "../../core/task-routes.ts";

interface CleanPath {
  /** Without the query; `/v1` restored where a client left it out. */
  readonly path: string;
  /** With its question mark, or "". */
  readonly query: string;
}

const encodedSeparators = /%(?:2f|5c)/i;
const dotSegment = /^(?:\.|%2e){1,2}$/i;
/** Visible ASCII without the fragment's mark, which has no place in a request. */
const plainTarget = /^[!-"$-~]*$/;

/**
 * The path of a request target, or undefined for a form that two readers could understand differently: an absolute or
 * authority form, doubled or encoded slashes, backslashes, dot segments, fragments, escapes that are no UTF-8.
 */
export function cleanPath(target: string): CleanPath | undefined {
  if (!plainTarget.test(target)) return undefined;
  const mark = target.indexOf("?");
  const path = mark === -1 ? target : target.slice(0, mark);
  if (!path.startsWith("/") || path.includes("//") || path.includes("\\")) return undefined;
  if (path.includes("%") && (encodedSeparators.test(path) || !decodes(path))) return undefined;
  if (path.includes(".") || path.includes("%")) {
    if (path.split("/").some((segment) => dotSegment.test(segment))) return undefined;
  }
  const query = mark === -1 ? "" : target.slice(mark);
  return { path: isUnversioned(path) ? `/v1${path}` : path, query };
}

function isUnversioned(path: string): boolean {
  if (path.startsWith("/v1/")) return false;
  return unversionedPaths.some(
    (known) => path.startsWith(known) && (path.length === known.length || path[known.length] === "/"),
  );
}

function decodes(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}
