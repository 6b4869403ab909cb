/** Reads CSV (RFC 4180). An empty cell without quotes is null. */
export function parseCsv(text: string): (string | null)[][] {
  const rows: (string | null)[][] = [];
  let row: (string | null)[] = [];
  const cell = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n)/y;
  while (cell.lastIndex < text.length) {
    const at = cell.lastIndex;
    const match = cell.exec(text);
    if (match === null) throw new Error(`not CSV at ${at}: ${text.slice(at, at + 40)}`);
    const [, written = "", end] = match;
    row.push(written.startsWith('"') ? written.slice(1, -1).replaceAll('""', '"') : written === "" ? null : written);
    if (end === ",") continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

export type CsvRecord = Readonly<Record<string, string | null>>;

/** Returns the rows below the header, by column name. */
export function csvRecords(text: string): {
  readonly columns: readonly string[];
  readonly records: readonly CsvRecord[];
} {
  const [header = [], ...rows] = parseCsv(text);
  const columns = header.map(String);
  const records = rows.map((row) => {
    if (row.length !== columns.length) throw new Error(`${row.length} cells under ${columns.length} columns`);
    return Object.fromEntries(columns.map((name, index) => [name, row[index] ?? null]));
  });
  return { columns, records };
}
