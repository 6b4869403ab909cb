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

/** Part of a price file, with its position. Models have thousands of them, so that a block is only a few references. */
export class Block {
  /** Index of the file's layer; 0 contains the shipped files. */
  readonly layer: number;
  readonly #file: ParsedPriceFile;
  readonly #path: Path;
  readonly #report: (fault: Fault) => void;

  constructor(file: ParsedPriceFile, layer: number, path: Path, report: (fault: Fault) => void) {
    this.layer = layer;
    this.#file = file;
    this.#path = path;
    this.#report = report;
  }

  /** Returns the part at a path within this part. */
  at(...path: Path): Block {
    return new Block(this.#file, this.layer, [...this.#path, ...path], this.#report);
  }

  /**
   * Returns true if the field's value, or its absence, is what the author intended: the field was neither removed
   * because of a fault nor misspelled.
   */
  isReliable(field: string): boolean {
    return !this.#file.isRemoved([...this.#path, field]) && !this.#file.isMisspelled(this.#path, field);
  }

  /** Returns true if no part of the block was removed because of a fault. */
  isWhole(): boolean {
    return this.#file.isWhole(this.#path);
  }

  /** Reports a fault at the position of the part. */
  report(message: string): void {
    this.#report(this.#file.faultAt(this.#path, message));
  }

  /** Returns the position of the part. Finding the first position of a file parses the file again. */
  place(): FileLocation {
    const { file, line } = this.#file.faultAt(this.#path, "");
    return { file, line };
  }
}

/** A value, and the part of a price file that states it. */
export interface Decided<Value> {
  readonly value: Value;
  readonly block: Block;
}
