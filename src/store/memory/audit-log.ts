import { changesAnything, type NewAuditEntry } from "../../core/audit.ts";
import type { AuditLog, AuditPage, AuditQuery } from "../../ports/audit-log.ts";
import type { MemoryState } from "./state.ts";

/** Writes down who changed what; nothing where nothing is different. */
export function recordAudit(state: MemoryState, entry: NewAuditEntry): void {
  if (changesAnything(entry)) state.audit.push({ id: state.audit.length + 1, ...entry });
}

export class MemoryAuditLog implements AuditLog {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async entries({ since = -Infinity, until = Infinity, limit, after = Infinity }: AuditQuery): Promise<AuditPage> {
    const matching = this.#state.audit.filter(({ id, at }) => id < after && at >= since && at < until).toReversed();
    const entries = matching.slice(0, limit);
    return { entries, next: matching.length > limit ? (entries.at(-1)?.id ?? null) : null };
  }
}
