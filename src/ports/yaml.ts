import type { Fault } from "../core/fault.ts";

/** Names of fields and positions in lists, starting at the top of the file. */
export type Path = readonly (string | number)[];

/**
 * A parsed file. Values with a fault are removed, so that the other values can be checked in the same run. Required
 * fields may therefore be missing, and list items undefined. Check `isRemoved` before reporting a missing value.
 */
export interface ReadYaml<Value = unknown> {
  readonly name: string;
  readonly value: Value;
  readonly faults: readonly Fault[];
  /** Returns true if the value at this path, or a block that contains it, was removed. */
  isRemoved(path: Path): boolean;
  /** Returns true if no part of the value at this path was removed. */
  isWhole(path: Path): boolean;
  /** Returns the names of the entries that were removed from the block at this path. */
  removedIn(path: Path): readonly string[];
  /** Returns true if the block at this path has an unknown field with a similar name. */
  isMisspelled(path: Path, field: string): boolean;
  /** Returns a fault at a value, or at its key if the value is a block, a list or missing. */
  faultAt(path: Path, message: string): Fault;
}
