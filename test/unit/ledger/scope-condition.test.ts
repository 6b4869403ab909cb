import Database from "better-sqlite3";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { appliesTo, formatScope, subjectsOf } from "../../../src/core/scope.ts";
import { holdCommand } from "../../../src/ledger/commands.ts";
import { holdColumns } from "../../../src/ledger/charge-columns.ts";
import { callerOfRow, countedColumns } from "../../../src/ledger/rows/budgets.ts";
import { scopeCondition } from "../../../src/ledger/queries/scope-condition.ts";
import { sqliteDialect } from "../../../src/ledger/queries/dialects.ts";
import { usd } from "../../../src/core/money.ts";
import { holdOf } from "../../support/ledger-fixtures.ts";
import { callers, scopes, type KnownCaller } from "../../support/scope-arbitraries.ts";
import { runs } from "../../support/effort.ts";

const columns = [...countedColumns, "session", "route"] as const;

function rowOf(caller: KnownCaller) {
  const { tags, models, ...sender } = caller;
  const [, , values] = holdCommand(holdOf("a", usd("1"), { caller: sender, tags, models }), false);
  return holdColumns.read(values);
}

it("a scope condition selects exactly the charges in the scope with the subject", () => {
  const db = new Database(":memory:");
  db.exec(`create table charges (${columns.join(", ")})`);
  const insert = db.prepare(`insert into charges values (${columns.map(() => "?").join(", ")})`);
  const property = fc.property(
    scopes,
    fc.array(callers, { minLength: 1, maxLength: 6 }),
    callers,
    (scope, stored, asked) => {
      db.exec("delete from charges");
      const rows = stored.map(rowOf);
      for (const row of rows) insert.run(...columns.map((name) => row[name]));
      const subjects = new Set(
        [asked, ...stored].filter((caller) => appliesTo(scope, caller)).flatMap((caller) => subjectsOf(scope, caller)),
      );
      for (const subject of subjects) {
        const { sql, values } = scopeCondition(sqliteDialect, scope, subject);
        const counted = stored.map((caller) => appliesTo(scope, caller) && subjectsOf(scope, caller).includes(subject));
        const selected = db
          .prepare(`select (${sql}) is 1 from charges order by rowid`)
          .pluck()
          .all(...values);
        expect(selected.map(Boolean), `${formatScope(scope)} / ${subject}`).toEqual(counted);
      }
      expect(rows.map(callerOfRow)).toEqual(stored);
    },
  );
  fc.assert(property, { numRuns: runs(20_000) });
});
