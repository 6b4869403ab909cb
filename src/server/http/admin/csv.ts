import { z } from "zod";
import { type Exchange, notForwarded, type Summary } from "../../../ports/exchange.ts";
import { csvOf } from "../../../reporting/csv.ts";
import type { CsvList } from "../../../reporting/list-csv.ts";

/** Largest number of rows in a CSV file. */
const rowsMax = 100_000;
/** Parameters that select the first page of a file. */
export const firstPage = { limit: 1000, cursor: undefined };
/** `rowsMax` with commas. `toLocaleString` would load tables that take 8 MB. */
const rowsText = String(rowsMax).replaceAll(/\B(?=(?:\d{3})+$)/g, ",");
const truncated = `The list is longer; this file has its first ${rowsText} rows.`;

function searched(since: string): string {
  return `Only the rows since ${since} were searched; choose an earlier time range for older rows.`;
}

/** Adds the parameter `format`, which selects CSV, to a list's query. */
export function withFormat<Q extends z.ZodObject>(query: Q) {
  return query.extend({
    format: z
      .enum(["json", "csv"], "must be json or csv")
      .default("json")
      .meta({
        description: `\`csv\` for all rows in one file, at most ${rowsText}; \`limit\` and \`cursor\` are then ignored.`,
      }),
  });
}

/** Page of a list, with the cursor of the next page and the time back to which a search went. */
interface Page {
  readonly next: string | null;
  readonly examined_to?: string | null;
}

/**
 * Answers with all rows of a list as CSV, one page after the other. `read` returns the page at a cursor. Breaks the
 * connection if a later page fails, so that the file is not mistaken for a complete one.
 */
export async function answerCsv(
  exchange: Exchange,
  { name, header, lines }: CsvList<never>,
  first: unknown,
  read: (cursor: string) => Promise<{ readonly ok: true; readonly json: unknown } | { readonly ok: false }>,
): Promise<Summary> {
  exchange.begin(200, [
    ["content-type", "text/csv; charset=utf-8"],
    ["content-disposition", `attachment; filename="farebox-${name}.csv"`],
    ["cache-control", "no-store"],
  ]);
  let text = header;
  let page = first;
  let sent = 0;
  while (exchange.method !== "HEAD") {
    const shown = lines(page as never);
    const { next, examined_to: examinedTo = null } = page as Page;
    sent += shown.count;
    const isTruncated = next !== null && sent >= rowsMax;
    text += shown.text;
    if (isTruncated) text += csvOf([[truncated]]);
    else if (next === null && examinedTo !== null) text += csvOf([[searched(examinedTo)]]);
    await written(exchange, text);
    if (exchange.clientGone) return notForwarded;
    if (next === null || isTruncated) break;
    const answer = await read(next);
    if (!answer.ok) {
      exchange.breakOff();
      return notForwarded;
    }
    page = answer.json;
    text = "";
  }
  exchange.end();
  return notForwarded;
}

/** Writes a text, and waits until a slow client has received enough of it, or has disconnected. */
async function written(exchange: Exchange, text: string): Promise<void> {
  if (text === "" || exchange.clientGone || exchange.write(Buffer.from(text))) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  exchange.onDrain(resolve);
  exchange.onClientGone(resolve);
  await promise;
}
