import type { Path, ReadYaml } from "../ports/yaml.ts";
import { readYaml } from "../platform/yaml.ts";
import { priceFileSchema, type PriceFile } from "./schema.ts";
import type { Fault } from "../core/fault.ts";

/** Parsed price file. */
export type ParsedPriceFile = ReadYaml<PriceFile>;

/** Parses the text of one price file and checks its structure. A pure function that accepts any text. */
export function readPriceFile(name: string, text: string): ParsedPriceFile {
  return readYaml(name, text, { noun: "a price file", schema: priceFileSchema });
}

/** Part of a price file, with its position. `report` reports a fault at that position. */
export interface Block {
  /** Returns the part at a path within this part. */
  at(...path: Path): Block;
  /**
   * Returns true if the field's value, or its absence, is what the author intended: the field was neither removed
   * because of a fault nor misspelled.
   */
  isReliable(field: string): boolean;
  report(message: string): void;
  /** Returns the line number in the file, from 1. */
  line(): number;
}

export function blockOf(file: ParsedPriceFile, path: Path, report: (fault: Fault) => void): Block {
  return {
    at: (...inner) => blockOf(file, [...path, ...inner], report),
    isReliable: (field) => !file.isRemoved([...path, field]) && !file.isMisspelled(path, field),
    report: (message) => report(file.faultAt(path, message)),
    line: () => file.faultAt(path, "").line,
  };
}
