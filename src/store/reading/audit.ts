import type { AuditPage, AuditQuery } from "../../ports/audit-log.ts";
import { withNumbers } from "../numbers.ts";
import { auditPage, type AuditRow } from "../rows/audit.ts";
import { rowsOf, type Reading } from "./reading.ts";

/** One page of entries, newest first. */
export function* readAudit({ since, until, limit, after }: AuditQuery): Reading<AuditPage> {
  const rows = yield* rowsOf<AuditRow>({
    sql: "select * from audit_entries where id < ? and made_at >= ? and made_at < ? order by id desc limit ?",
    values: [
      after ?? Number.MAX_SAFE_INTEGER,
      since ?? Number.MIN_SAFE_INTEGER,
      until ?? Number.MAX_SAFE_INTEGER,
      limit + 1,
    ],
  });
  return auditPage(rows.map(withNumbers), limit);
}
