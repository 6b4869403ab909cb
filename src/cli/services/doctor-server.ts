import type { DatabaseSetting } from "../../config/database.ts";
import type { Settings } from "../../config/settings.ts";
import { failed, judgePending, ok, warning, type Findings } from "../../reporting/doctor.ts";
import type { Check } from "../../reporting/shapes/commands.ts";
import type { ServerState } from "../../ledger/postgres/maintenance.ts";
import { ledgerProblem } from "./database.ts";
import { judgeTimeZone, judgeUsers } from "./doctor-files.ts";
import { serverOf } from "../../server/ledger.ts";

/** Checks the database server of the ledger. Creates nothing. */
export async function examineServer(
  database: DatabaseSetting & { readonly kind: "postgres" },
  settings: Settings,
  now: number,
): Promise<Findings> {
  const { shown } = database;
  const { inspectServer } = await import("../../ledger/postgres/maintenance.ts");
  const inspected = await inspectServer(serverOf(database));
  if (!inspected.ok)
    return failed(
      "database",
      ledgerProblem(inspected.failure, shown),
      "check FAREBOX_DATABASE; docs/postgresql.md describes how to set up a server",
    );
  const { mayCreate, ledger } = inspected.state;
  const rights = failed(
    "database rights",
    "the role cannot create tables in its schema; Farebox creates one for the charges of each month",
    "make the role the owner of the database or the schema",
  );
  return [
    judgeServer(shown, inspected.state),
    ...(mayCreate ? [] : [rights]),
    ...(ledger === null || !inspected.state.hasOwnFunctions
      ? []
      : [
          judgePending(ledger.pending, now, ledger.proxies > 0),
          judgeTimeZone(settings.timeZone, ledger.timeZone),
          ...judgeUsers(settings.access.users, ledger.userScopes),
        ]),
  ];
}

function judgeServer(shown: string, state: ServerState): Check {
  const { schema, known, version, isEncrypted, hasOwnFunctions, ledger } = state;
  const place = `${shown}, PostgreSQL ${version}, ${isEncrypted ? "with TLS" : "without TLS"}`;
  if (schema === 0)
    return ok("database", `there is no ledger yet at ${place}; farebox serve or farebox keys create will create it`);
  if (ledger === null)
    return warning(
      "database",
      `${place} has schema version ${schema} of an earlier release`,
      `stop all proxies and back it up with pg_dump; then farebox serve or farebox db migrate upgrades it to ${known}`,
    );
  if (!hasOwnFunctions)
    return warning(
      "database",
      `${place} has the functions of another release`,
      "the next farebox serve replaces them if no other proxy is running; farebox db migrate replaces them now",
    );
  const { proxies } = ledger;
  const runs =
    proxies === 0 ? "no proxy is using it" : proxies === 1 ? "a proxy is using it" : `${proxies} proxies are using it`;
  return ok("database", `${place}, schema version ${schema}; ${runs}`);
}
