import { closeSync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { createPrivateFile, type Connection } from "./connection.ts";

/** Writes all that the connection sees into a new file, durably. A file that is open is seen whole although it has no name any more. */
export function copyInto(db: Connection, file: string): string {
  if (createPrivateFile(file) === "exists") throw new Error(`${file} is there already`);
  db.prepare("vacuum into ?").run(file);
  for (const path of [file, dirname(file)]) {
    const open = openSync(path, "r");
    fsyncSync(open);
    closeSync(open);
  }
  return file;
}
