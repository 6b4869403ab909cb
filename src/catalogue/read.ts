import type { Path, ReadYaml } from "../ports/yaml.ts";
import { readYaml } from "../platform/yaml.ts";
import { priceFileSchema, type PriceFile } from "./schema.ts";
import type { Fault } from "../core/fault.ts";

export type { Path };

/** A price file as it was read. */
export type ReadFile = ReadYaml<PriceFile>;

/** Reads one price file's text and checks its shape; pure, and total over any text. */
export function readPriceFile(name: string, text: string): ReadFile {
  return readYaml(name, text, { noun: "a price file", schema: priceFileSchema });
}

/** A part of a price file: its position, the faults already found in it, and the report of new ones. */
export interface Block {
  /** The part of this one at a path. */
  at(...path: Path): Block;
  /** Reports that the field's value, or its absence, is what the file means: it was neither cut out nor mistyped. */
  reliable(field: string): boolean;
  report(message: string): void;
  /** Line in its file, from 1. */
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
