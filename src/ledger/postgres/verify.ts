import type { Verification } from "../../ports/ledger.ts";
import { verifyLedger, type VerifyOptions } from "../audit/verify-ledger.ts";
import { postgresDialect } from "../queries/dialects.ts";
import { answer, beginSnapshotSql } from "./answer.ts";
import type { Database } from "./connection.ts";

/** Implements `LedgerMaintenance.verify`. */
export async function verify(database: Database, options: VerifyOptions): Promise<Verification> {
  await using session = await database.session();
  await session.run(beginSnapshotSql);
  return await answer(session, verifyLedger(postgresDialect, options));
}
