import type { Verification } from "../../ports/ledger.ts";
import { verifying, type VerifyOptions } from "../audit/verifying.ts";
import { postgresDialect } from "../queries/dialects.ts";
import { answer } from "./answer.ts";
import type { Database } from "./connection.ts";
import { keepsSnapshot } from "./cursor.ts";
import { checkLeases } from "./lease-check.ts";

/** See the ledger's port. */
export async function verify(database: Database, options: VerifyOptions): Promise<Verification> {
  await using session = await database.session();
  await session.run(keepsSnapshot);
  return await answer(session, verifying(postgresDialect, options, checkLeases));
}
