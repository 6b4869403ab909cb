import type { PostgresServer } from "../../core/postgres-url.ts";
import { connect, databaseFault } from "../postgres/connection.ts";
import { migrate } from "../postgres/migrate.ts";
import type { OpenFailure } from "../store.ts";
import { copyToPostgres, type PostgresCopyOptions, type PostgresCopyResult } from "./copy.ts";

type Copied = Extract<PostgresCopyResult, { readonly ok: true }>;

export type MoveFailure =
  | Exclude<PostgresCopyResult, { readonly ok: true }>
  /** The database cannot be reached, or a ledger cannot be created in it. */
  | { readonly ok: false; readonly kind: "target"; readonly failure: OpenFailure }
  /** The connection to the database was lost during the copy. */
  | { readonly ok: false; readonly kind: "lost"; readonly message: string };

export interface MoveOptions extends Omit<PostgresCopyOptions, "client"> {
  readonly server: PostgresServer;
}

/** Creates the tables in a PostgreSQL database and copies a file's ledger into them. Does not change the file. */
export async function moveToPostgres({ server, ...options }: MoveOptions): Promise<Copied | MoveFailure> {
  let isCopying = false;
  try {
    await using database = connect(server, { applicationName: "farebox db copy", max: 1, statementMs: null });
    const migrated = await migrate(database, { copying: true });
    if (!migrated.ok) return { ok: false, kind: "target", failure: migrated.failure };
    isCopying = true;
    await using session = await database.session();
    return await copyToPostgres({ ...options, client: session.client });
  } catch (error) {
    const message = databaseFault(error);
    if (message === null) throw error;
    return isCopying
      ? { ok: false, kind: "lost", message }
      : { ok: false, kind: "target", failure: { kind: "unusable", message } };
  }
}
