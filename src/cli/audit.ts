import type { AuditDetails } from "../core/audit.ts";
import { auditEntryJson, auditJson, readAuditCursor } from "../reporting/audit.ts";
import { parseInstant } from "../reporting/instants.ts";
import { wholeNumberArgument } from "./arguments.ts";
import { command, refusal } from "./command.ts";
import { note } from "./io.ts";
import { printRows } from "./table.ts";

/** Lists changes of keys, teams, budgets, admins and charges, who made them, and how. */
export const commands = [
  command("audit", {
    options: {
      since: { value: "<when>", help: "only from then on: 24h, 7d, 2026-11-20 or an ISO instant" },
      limit: { value: "<count>", help: "how many at most", parse: wholeNumberArgument(1, 1000), default: 100 },
      cursor: { value: "<cursor>", help: "continue a list that ended with this cursor" },
      json: { help: "print JSON, with each thing as it was and as it became" },
    },
    ledger: "read",
    examples: ["farebox audit --since 7d"],
    run: async ({ audit, clock, calendar }, { since: when, limit, cursor }) => {
      const since = when === undefined ? undefined : parseInstant("--since", when, clock.now(), calendar);
      if (since?.ok === false) return refusal(since.problem);
      const after = cursor === undefined ? undefined : readAuditCursor(cursor);
      if (cursor !== undefined && after === undefined)
        return refusal("--cursor must be the cursor that a list of the audit ended with");
      return await audit.entries({
        limit,
        ...(since && { since: since.at }),
        ...(after !== undefined && { after }),
      });
    },
    json: auditJson,
    print: (io, { entries, next }) => {
      printRows(io, entries.map(auditEntryJson), {
        time: ({ time }) => time,
        by: ({ by }) => by,
        action: ({ action }) => action,
        object: ({ object }) => object,
        change: ({ before, after }) => changed(before, after),
      });
      if (next !== null) note(io, `there are more: --cursor ${next}`);
    },
  }),
];

/** Lists the differences by field: "limit_usd 5 -> 7". */
function changed(before: AuditDetails | null, after: AuditDetails | null): string {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  const parts = [...names].flatMap((name) => {
    const [was, is] = [shown(before?.[name]), shown(after?.[name])];
    if (was === is) return [];
    if (before === null) return [`${name} ${is}`];
    return [after === null ? `${name} ${was}` : `${name} ${was} -> ${is}`];
  });
  return parts.join(", ");
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return "-";
  return typeof value === "string" ? value : JSON.stringify(value);
}
