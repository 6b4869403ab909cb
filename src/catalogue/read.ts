import type { Path, ReadYaml } from "../ports/yaml.ts";
import { readYaml } from "../platform/yaml.ts";
import { priceFileSchema, type PriceFile } from "./schema.ts";
import type { Fault } from "../core/fault.ts";

export type { Path };

/** A parsed price file. */
export type ReadFile = ReadYaml<PriceFile>;

/** Parses the text of one price file and checks its structure. Pure; accepts any text. */
export function readPriceFile(name: string, text: string): ReadFile {
  return readYaml(name, text, { noun: "a price file", schema: priceFileSchema });
}

/** A part of a price file. Knows its position and the faults already found in it, and reports new ones. */
export interface Block {
  /** Returns the part at a path within this one. */
  at(...path: Path): Block;
  /**
   * Returns true if the field's value, or its absence, is what the author wrote: the field was neither removed
   * because of a fault nor misspelled.
   */
  reliable(field: string): boolean;
  report(message: string): void;
  /** Returns the line number in the file, from 1. */
  line(): number;
}

export function blockOf(file: ReadFile, path: Path, report: (fault: Fault) => void): Block {
  return {
    at: (...inner) => blockOf(file, [...path, ...inner], report),
    reliable: (field) => !file.lost([...path, field]) && !file.mistyped(path, field),
    report: (message) => report(file.faultAt(path, message)),
    line: () => file.faultAt(path, "").line,
  };
}
