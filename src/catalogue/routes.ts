import {
  canonicalSegments,
  hasTaskId,
  isBelow,
  pathsOverlap,
  ownPaths,
  unversionedPaths,
  type RouteKind,
  type RouteMethod,
  type TaskRoute,
} from "../core/task-routes.ts";
import type { Block, ParsedPriceFile } from "./read.ts";
import type { StatedRoute } from "./schema.ts";

/** Statement of a route in a file. If `stated` is null, the statement removes the route of an earlier layer. */
interface Statement {
  readonly key: string;
  readonly file: ParsedPriceFile;
  readonly layer: number;
  readonly block: Block;
  readonly stated: StatedRoute | null;
}

/**
 * Returns the routes that apply after all layers. Each combination of method and path occurs once. If the function
 * reports faults, the result is incomplete.
 */
export function routesOf(
  layers: readonly (readonly ParsedPriceFile[])[],
  blockOf: (file: ParsedPriceFile, key: string) => Block,
): readonly TaskRoute[] {
  const statements = new Map<string, Statement>();
  layers.forEach((files, layer) => {
    for (const file of files) {
      for (const [key, stated] of Object.entries(file.value.routes ?? {})) {
        const block = blockOf(file, key);
        const identity = identityOf(key);
        const other = statements.get(identity);
        if (other?.layer === layer)
          block.report(
            `"${other.key}" is already in ${other.file.name}, line ${other.block.place().line}; keep one of them`,
          );
        statements.set(identity, { key, file, layer, block, stated });
      }
    }
  });
  const applied = [...statements.values()].filter(({ stated }) => stated !== null);
  reportOverlaps(applied);
  return applied.flatMap(({ key, block, stated }) => (stated === null ? [] : [routeOf(key, stated, block)]));
}

function partsOf(key: string): { readonly method: RouteMethod; readonly path: string } {
  const [method = "", path = ""] = key.split(" ");
  return { method: method as RouteMethod, path };
}

/** Returns a route's method and normalized path. The result is the same for all spellings of the path. */
function identityOf(key: string): string {
  const { method, path } = partsOf(key);
  return `${method} /${canonicalSegments(path).join("/")}`;
}

/** Reports routes that can match the same request as an earlier route, at the position of the later of the two. */
function reportOverlaps(statements: readonly Statement[]): void {
  statements.forEach((statement, index) => {
    const { method, path } = partsOf(statement.key);
    const other = statements
      .slice(0, index)
      .find(({ key }) => partsOf(key).method === method && pathsOverlap(partsOf(key).path, path));
    if (other === undefined) return;
    const [later, earlier] = other.layer > statement.layer ? [other, statement] : [statement, other];
    later.block.report(
      `a request can match both this route and "${earlier.key}" (${earlier.file.name}, line ${earlier.block.place().line}); keep one of them, or write "${earlier.key}: null" in a later file`,
    );
  });
}

/** Fields that each kind of route accepts, in addition to `does`, `source` and `keys`. */
const fieldsOf: Readonly<Record<RouteKind, readonly (keyof StatedRoute)[]>> = {
  create: ["model", "model_field", "type", "type_field", "input"],
  retrieve: ["task_field"],
  cancel: ["task_field"],
  list: [],
  upload: [],
  setting: [],
};

function routeOf(key: string, stated: StatedRoute, block: Block): TaskRoute {
  const { method, path } = partsOf(key);
  const { does } = stated;
  if (isBelow(path, [...ownPaths, ...unversionedPaths]) || path.split("/")[1] === "{task_id}") {
    block.report(
      `"${path}" is reserved for Farebox; write a path that does not begin with ${ownPaths.join(", ")} or {task_id}`,
    );
  }
  if (path.split("{task_id}").length > 2) block.report(`"${path}" names a task twice; write {task_id} once`);
  for (const field of ["model", "model_field", "type", "type_field", "input", "task_field"] as const) {
    if (stated[field] !== undefined && !(fieldsOf[does] ?? []).includes(field))
      block.at(field).report(`has no meaning for does: ${does}; leave "${field}" out`);
  }
  if (
    does === "create" &&
    stated.model === undefined &&
    stated.model_field === undefined &&
    block.isReliable("model") &&
    block.isReliable("model_field")
  ) {
    block.report(
      '"model" is missing; write the model whose task prices apply, or `model_field`, the field of the body that names it',
    );
  }
  if (
    (does === "retrieve" || does === "cancel") &&
    block.isReliable("task_field") &&
    hasTaskId(path) === (stated.task_field !== undefined)
  ) {
    block.report(
      "must name its task exactly once; write {task_id} in the path, or `task_field`, the field of the body that names it",
    );
  }
  if (does === "setting" && stated.keys === undefined && block.isReliable("keys")) {
    block.report(
      '"keys" is missing; a setting applies to the whole account, so write the names of the keys that may change it',
    );
  }
  return {
    method,
    path,
    does,
    model: { field: stated.model_field ?? null, fixed: stated.model ?? null },
    type: { field: stated.type_field ?? null, fixed: stated.type ?? null },
    input: stated.input ?? null,
    taskField: stated.task_field ?? null,
    keys: stated.keys ?? null,
  };
}
