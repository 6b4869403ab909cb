import type { Path, ReadYaml } from "../ports/yaml.ts";
import { readYaml } from "../platform/yaml.ts";
import { priceFileSchema, type PriceFile } from "./schema.ts";
import type { Fault } from "../core/fault.ts";
import type { FileLocation } from "../ports/catalogue.ts";

/** Parsed price file. */
export type ParsedPriceFile = ReadYaml<PriceFile>;

/** Parses the text of one price file and checks its structure. A pure function that accepts any text. */
export function readPriceFile(name: string, text: string): ParsedPriceFile {
  return readYaml(name, text, { noun: "a price file", schema: priceFileSchema });
}

/** Part of a price file, with its position. `report` reports a fault at that position. */
export interface Block {
  /** Index of the file's layer; 0 contains the shipped files. */
  readonly layer: number;
  /** Returns the part at a path within this part. */
  at(...path: Path): Block;
  /**
   * Returns true if the field's value, or its absence, is what the author intended: the field was neither removed
   * because of a fault nor misspelled.
   */
  isReliable(field: string): boolean;
  /** Returns true if no part of the block was removed because of a fault. */
  isWhole(): boolean;
  report(message: string): void;
  /** Returns the position of the part. Finding the first position of a file parses the file again. */
  place(): FileLocation;
}

/** A value, and the part of a price file that states it. */
export interface Decided<Value> {
  readonly value: Value;
  readonly block: Block;
}

/** Where a block is: its file, the file's layer, and the path within the file. */
interface Position {
  readonly file: ParsedPriceFile;
  readonly layer: number;
  readonly path: Path;
}

export function blockOf({ file, layer, path }: Position, report: (fault: Fault) => void): Block {
  return {
    layer,
    at: (...inner) => blockOf({ file, layer, path: [...path, ...inner] }, report),
    isReliable: (field) => !file.isRemoved([...path, field]) && !file.isMisspelled(path, field),
    isWhole: () => file.isWhole(path),
    report: (message) => report(file.faultAt(path, message)),
    place: () => ({ file: file.name, line: file.faultAt(path, "").line }),
  };
}
