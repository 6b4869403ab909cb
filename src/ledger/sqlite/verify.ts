import type { Verification } from "../../ports/ledger.ts";
import { verifying, type VerifyOptions } from "../audit/verifying.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import { answer } from "./answer.ts";
import type { Connection } from "./connection.ts";
import { checkDanglingLinks } from "./links-check.ts";

/** See the ledger's port. While it runs, the write-ahead log keeps what is written beside it. */
export function verify(db: Connection, options: VerifyOptions): Verification {
  return answer(db, verifying(sqliteDialect, options, checkDanglingLinks));
}
