import type { Command } from "commander";
import type { Facts } from "../core/audit.ts";
import { auditEntryJson, auditJson, readAuditCursor } from "../reporting/audit.ts";
import { parseInstant } from "../reporting/instants.ts";
import { wholeNumberArgument } from "./arguments.ts";
import { storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";

interface AuditOptions {
  readonly since?: string;
  readonly limit: number;
  readonly cursor?: string;
  readonly json?: true;
}

/** `audit`: who changed keys, teams, budgets, admins and charges, and how. */
export function registerAudit(program: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = program
    .command("audit")
    .description("list who changed what, newest first")
    .option("--since <when>", "only from then on: 24h, 7d, 2026-11-20 or an ISO instant")
    .option("--limit <count>", "how many at most", wholeNumberArgument(1, 1000), 100)
    .option("--cursor <cursor>", "continue a list that ended with this cursor")
    .option("--json", "print JSON, with each thing as it was and as it became");
  addSettingFlags(command, storeSettings);
  example(command, "farebox audit --since 7d");
  command.action(
    context.run((options: AuditOptions) =>
      withStore(context, command, "read", async (store) => {
        const since =
          options.since === undefined
            ? undefined
            : parseInstant("--since", options.since, adapters.clock.now(), store.calendar);
        if (since?.ok === false) return fail(io, since.problem);
        const after = options.cursor === undefined ? undefined : readAuditCursor(options.cursor);
        if (options.cursor !== undefined && after === undefined)
          return fail(io, "--cursor must be the cursor that a list of the audit ended with");
        const page = await store.audit.entries({
          limit: options.limit,
          ...(since && { since: since.at }),
          ...(after !== undefined && { after }),
        });
        if (options.json) {
          printJson(io, auditJson(page));
          return 0;
        }
        printTable(
          io,
          ["time", "by", "action", "object", "change"].map((title) => ({ title })),
          page.entries.map((entry) => {
            const { time, by, action, object, before, after: became } = auditEntryJson(entry);
            return [time, by, action, object, changed(before, became)];
          }),
        );
        if (page.next !== null) note(io, `there are more: --cursor ${page.next}`);
        return 0;
      }),
    ),
  );
}

/** What is different, field by field: "limit_usd 5 -> 7". */
function changed(before: Facts | null, after: Facts | null): string {
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
