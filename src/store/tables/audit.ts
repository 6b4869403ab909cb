import { changesAnything, type Facts, type NewAuditEntry } from "../../core/audit.ts";
import type { Reading } from "../reading/reading.ts";
import { insert } from "./table.ts";

/** Writes who changed what, in the transaction of the change; nothing if nothing is different. */
export function* recordAudit(entry: NewAuditEntry): Reading<void> {
  if (!changesAnything(entry)) return;
  const { at, by, action, object, before, after } = entry;
  yield* insert("audit_entries", {
    made_at: at,
    made_by: by,
    action,
    object,
    facts_before: textOf(before),
    facts_after: textOf(after),
  });
}

function textOf(facts: Facts | null): string | null {
  return facts && JSON.stringify(facts);
}
