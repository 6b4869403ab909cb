import { bold, visible, type Io } from "./io.ts";

export interface Column {
  readonly title: string;
  /** Figures stand to the right. */
  readonly align?: "right";
}

export type TableCell = string | number | null;

/** A table: aligned under bold titles on a terminal, tab-separated lines elsewhere. Null is shown as a dash. */
export function printTable(io: Io, columns: readonly Column[], rows: readonly (readonly TableCell[])[]): void {
  const titles = columns.map(({ title }) => title);
  const body = rows.map((row) => row.map((cell) => (cell === null ? "-" : visible(String(cell)))));
  if (!io.isTTY) {
    for (const line of [titles, ...body]) io.stdout.write(`${line.join("\t")}\n`);
    return;
  }
  const widths = columns.map((_, index) => Math.max(...[titles, ...body].map((line) => line[index]?.length ?? 0)));
  const aligned = (line: readonly string[]) =>
    columns.map(({ align }, index) => {
      const [text, width] = [line[index] ?? "", widths[index] ?? 0];
      return align === "right" ? text.padStart(width) : text.padEnd(width);
    });
  io.stdout.write(`${bold(io, aligned(titles).join("  ").trimEnd())}\n`);
  for (const line of body) io.stdout.write(`${aligned(line).join("  ").trimEnd()}\n`);
}

/** Names and values below each other, for one thing. */
export function printFields(io: Io, fields: readonly (readonly [name: string, value: TableCell])[]): void {
  const width = io.isTTY ? Math.max(...fields.map(([name]) => name.length)) : 0;
  const gap = io.isTTY ? "  " : "\t";
  for (const [name, value] of fields) {
    io.stdout.write(`${name.padEnd(width)}${gap}${value === null ? "-" : visible(String(value))}\n`);
  }
}
