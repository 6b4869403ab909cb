import type { Fault } from "../core/fault.ts";

/** Names of fields and places in lists, from the file down. */
export type Path = readonly (string | number)[];

/**
 * A file as it was read. What has a fault is cut out, so that all the rest can be looked at in the same run: a field
 * that the shape demands may be missing, and items of lists may be undefined. Ask `lost` before missing a thing.
 */
export interface ReadYaml<Value = unknown> {
  readonly name: string;
  readonly value: Value;
  readonly faults: readonly Fault[];
  /** Reports that the value at this path was cut out, alone or with its block. */
  lost(path: Path): boolean;
  /** The names of the entries that were cut out of the block at this path. */
  lostIn(path: Path): readonly string[];
  /** Reports that the block at this path has an unknown field with a name similar to this one. */
  mistyped(path: Path, field: string): boolean;
  /** A fault at a value, or at its key where the value is a block, a list or missing. */
  faultAt(path: Path, message: string): Fault;
}
