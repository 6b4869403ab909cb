import type { DatabaseSetting } from "../../config/database.ts";
import type { Settings } from "../../config/settings.ts";
import { failed, judgePending, ok, warning, type Check } from "../../reporting/doctor.ts";
import { ledgerProblem } from "../../server/database.ts";
import { zoneOf } from "./doctor-files.ts";
import { serverOf } from "../../server/ledger.ts";

/** Checks the database server of the ledger. Creates nothing. */
export async function examineServer(
  database: DatabaseSetting & { readonly kind: "postgres" },
  settings: Settings,
  now: number,
): Promise<Check[]> {
  const { shown } = database;
  const { inspectServer } = await import("../../ledger/postgres/maintenance.ts");
  const inspected = await inspectServer(serverOf(database));
  if (!inspected.ok)
    return [
      failed(
        "database",
        ledgerProblem(inspected.failure, shown),
        "check FAREBOX_DATABASE; docs/postgresql.md has the set-up of a server",
      ),
    ];
  const { schema, known, version, isEncrypted, mayCreate, ledger } = inspected.state;
  const place = `${shown}, PostgreSQL ${version}, ${isEncrypted ? "by TLS" : "without TLS"}`;
  const rights = mayCreate
    ? []
    : [
        failed(
          "database rights",
          "its role may not create tables in its schema, as each month's charges need",
          "let the role own the database or the schema",
        ),
      ];
  if (schema === 0)
    return [ok("database", `none yet at ${place}; the first serve or keys create creates it`), ...rights];
  if (ledger === null) {
    return [
      warning(
        "database",
        `${place} has schema version ${schema} of an earlier release`,
        `the next serve brings it to ${known} after a backup, or farebox db migrate does now`,
      ),
      ...rights,
    ];
  }
  if (!inspected.state.hasOwnFunctions) {
    return [
      warning(
        "database",
        `${place} has the functions of another release`,
        "the next serve replaces them while no other runs, or farebox db migrate does",
      ),
      ...rights,
    ];
  }
  const { proxies, pending, timeZone } = ledger;
  const runs =
    proxies === 0 ? "no serve runs on it" : proxies === 1 ? "a serve runs on it" : `${proxies} serves run on it`;
  return [
    ok("database", `${place}, schema version ${schema}; ${runs}`),
    ...rights,
    judgePending(pending, now, proxies > 0),
    zoneOf(settings.timeZone, timeZone),
  ];
}
