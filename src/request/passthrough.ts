import type { Refusal } from "../core/refusals.ts";
import { isBelow, ownPaths } from "../core/task-routes.ts";
import { type Exchange, refuse, type Handler } from "../ports/exchange.ts";
import { passthrough } from "../wire/endpoints/passthrough.ts";
import { equalFolded } from "../wire/findings.ts";
import { isOutputMember } from "../wire/output-names.ts";
import { hasModelList, outputCapOf, withKey } from "./authenticate.ts";
import { memberNotCapped, modelNotCapped } from "./output-cap.ts";
import { meteredRequest, mustNameModel, type RequestSteps } from "./metered-request.ts";

/**
 * Farebox's own paths, and paths whose records belong to one key. Requests to these paths are never forwarded; requests
 * to other paths under `/v1` are.
 */
const blockedPaths = [...ownPaths.filter((path) => path !== "/v1"), "/v1/farebox"];

/**
 * Returns true for a path that may be forwarded. Ignores escapes and letter case, because a gateway may ignore them.
 */
export function mayBeForwarded(_method: string, path: string): boolean {
  return !isBelow(path, blockedPaths);
}

/**
 * Returns a handler that forwards gateway paths that no other route serves. It serves only paths that `mayBeForwarded`
 * accepts.
 */
export function passAllThrough(steps: RequestSteps): Handler {
  const pass = meteredRequest(steps, passthrough);
  const isModel = (name: string): boolean => steps.catalogue().statedName(name) !== undefined;
  return withKey(steps.authenticate, passthrough.route, async (exchange, who) => {
    const isCapped = outputCapOf(who, steps.outputCap) !== null;
    const refusal = isCapped || hasModelList(who) ? namedOutsideBody(exchange, isCapped, isModel) : null;
    return refusal === null ? pass(exchange) : refuse(exchange, refusal);
  });
}

/**
 * Returns the refusal of a request whose path or query names a model, or an output maximum if an output cap applies;
 * null otherwise.
 */
function namedOutsideBody(exchange: Exchange, isCapped: boolean, isModel: (name: string) => boolean): Refusal | null {
  const model = modelInPath(exchange.path, isModel);
  if (model !== undefined)
    return isCapped ? modelNotCapped(model) : mustNameModel(`the path names the model '${model}'`);
  for (const [name, value] of new URLSearchParams(exchange.query)) {
    if (equalFolded(name, "model") || isModel(value))
      return isCapped ? modelNotCapped(value) : mustNameModel(`the query names the model '${value}'`);
    if (isCapped && isOutputMember(name)) return memberNotCapped(name);
  }
  return null;
}

/**
 * Path segments that precede the name of a model. The name counts as a model even if the catalogue does not know it.
 */
const modelFolders = new Set(["model", "models", "engines", "deployments"]);

/** Returns the model in a path such as /v1beta/models/gemini-2.5-flash:generateContent; undefined for none. */
function modelInPath(path: string, isModel: (name: string) => boolean): string | undefined {
  const segments = decodeURIComponent(path).split("/");
  for (const [index, segment] of segments.entries()) {
    if (segment !== "" && modelFolders.has((segments[index - 1] ?? "").toLowerCase())) return segment;
    const names = [
      segment,
      segment.replace(/:.*$/s, ""),
      segment.replace(/:[^:]*$/, ""),
      `${segments[index - 1]}/${segment}`,
    ];
    const found = names.find(isModel);
    if (found !== undefined) return found;
  }
  return undefined;
}
