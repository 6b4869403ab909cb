import type { AuditDetails } from "../core/audit.ts";
import { auditEntryJson, auditJson, readAuditCursor } from "../reporting/details.ts";
import { noteNext, pageOptions, readInstant } from "./arguments.ts";
import { command } from "./command.ts";
import { commandFailure } from "./io.ts";
import { fieldColumns, printRows } from "./table.ts";

/** Lists changes to keys, teams, budgets, admins and charges, with the author and the changed fields of each. */
export const commands = [
  command("audit", {
    options: {
      since: { value: "<when>", help: "start of the time span: 24h, 7d, 2026-11-20 or an ISO instant" },
      ...pageOptions,
      json: { help: "print JSON, with the values before and after each change" },
    },
    ledger: "read",
    examples: ["farebox audit --since 7d"],
    run: async (tools, { since: when, limit, cursor }) => {
      const since = when === undefined ? undefined : readInstant("--since", when, tools);
      if (since?.ok === false) return since;
      const after = cursor === undefined ? undefined : readAuditCursor(cursor);
      if (cursor !== undefined && after === undefined)
        return commandFailure(`--cursor must be a cursor that farebox audit printed, not "${cursor}"`);
      return await tools.audit.entries({
        limit,
        ...(since && { since: since.at }),
        ...(after !== undefined && { after }),
      });
    },
    json: auditJson,
    print: (io, { entries, next }) => {
      printRows(io, entries.map(auditEntryJson), {
        ...fieldColumns("time", "by", "action", "object"),
        change: ({ before, after }) => changed(before, after),
      });
      noteNext(io, next);
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
    if (after === null) return [`${name} ${was}`];
    const [from, to] = name === "models" ? [was, is].map((text) => (text === "-" ? "all" : text)) : [was, is];
    return [`${name} ${from} -> ${to}`];
  });
  return parts.join(", ");
}

/**
 * Formats a value as a short text: a list with commas, the members of an object as `rpm=60`, and a missing value as
 * `-`.
 */
function shown(value: unknown): string {
  if (value === undefined || value === null) return "-";
  if (typeof value !== "object") return String(value);
  const parts = Array.isArray(value)
    ? value.map(shown)
    : Object.entries(value).flatMap(([name, member]) => (member === null ? [] : [`${name}=${shown(member)}`]));
  return parts.join(",") || "-";
}
