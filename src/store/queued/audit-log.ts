import type { AuditLog, AuditPage, AuditQuery } from "../../ports/audit-log.ts";
import type { LongReads } from "../long-reads.ts";

/** The audit in the ledger's database. */
export class QueuedAuditLog implements AuditLog {
  readonly #longReads: LongReads;

  constructor(longReads: LongReads) {
    this.#longReads = longReads;
  }

  async entries(query: AuditQuery): Promise<AuditPage> {
    return this.#longReads.read({ kind: "audit", query });
  }
}
