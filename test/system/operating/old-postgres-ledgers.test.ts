// @module-tag races
import { expect, it } from "vitest";
import { knownSchema } from "../../../src/ledger/postgres/migrate.ts";
import { oldLedgers } from "../../fixtures/old-ledgers/ledgers.ts";
import {
  expectSessionsUpgraded,
  expectUpgrade,
  oldLedgerSql,
  sessionsWithoutSecrets,
} from "../../support/old-ledgers.ts";
import { query } from "../../support/postgres-client.ts";
import { newDatabase } from "../../support/shared-postgres.ts";

const ledgers = oldLedgers.filter(({ engine }) => engine === "postgres");

const functions = `select regexp_replace(pg_get_functiondef(oid), '--[^\\n]*', '', 'g') as made from pg_proc
  where pronamespace = 'public'::regnamespace and proname like 'farebox%' order by proname`;
const columns = `select table_name, column_name, data_type, is_nullable from information_schema.columns where table_schema = 'public' and table_name !~ '_\\d\\d\\d\\d_\\d\\d$' order by 1, 2`;
const indexes = `select indexname from pg_indexes where schemaname = 'public' and tablename = 'charges' order by 1`;

it.each(ledgers)(
  "the upgraded ledger $name passes verify, reports the same and accepts new requests",
  async (ledger) => {
    await using database = await newDatabase("empty");
    await query(database.url, oldLedgerSql(ledger));
    // The proxy that was killed with requests in flight has been dead for a day.
    await query(database.url, "update owners set beat_at = clock_timestamp() - interval '1 day'");
    await expectUpgrade(ledger, database.url, knownSchema());
    // The upgraded ledger has the same schema as a new one.
    await using fresh = await newDatabase();
    for (const parts of [functions, columns, indexes])
      expect(await query(database.url, parts)).toEqual(await query(fresh.url, parts));
  },
);

it("an upgrade keeps the sessions of keys that were never rotated, and ends the others", async () => {
  await using database = await newDatabase("empty");
  const early = ledgers.find(({ name }) => name === "postgres-08-run-sessions");
  await query(database.url, oldLedgerSql(early ?? expect.fail("no such ledger")));
  await query(database.url, "update owners set beat_at = clock_timestamp() - interval '1 day'");
  await query(database.url, sessionsWithoutSecrets());
  await expectSessionsUpgraded(database.url);
});
