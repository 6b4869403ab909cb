import type { PostgresServer } from "../../core/postgres-url.ts";
import type { OpenResult, StoreOptions } from "../store.ts";

export interface OpenPostgresOptions extends StoreOptions {
  readonly server: PostgresServer;
}

/** Opens the ledger, the keys and the notice of changes in one PostgreSQL database. */
export async function openPostgres(_options: OpenPostgresOptions): Promise<OpenResult> {
  return { ok: false, failure: { kind: "unusable", message: "this build cannot open a ledger in PostgreSQL yet" } };
}
