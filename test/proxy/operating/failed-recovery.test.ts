import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { holdOf, tempFolder } from "../../support/ledger-fixtures.ts";
import { startProxy } from "../../support/running-proxy.ts";

// An unhandled rejection, which would end `serve` without its own message, fails the run.
it("a recovery that fails while other parts start ends the start", async () => {
  using folder = tempFolder();
  const env = { FAREBOX_DATABASE: folder.database };
  {
    await using proxy = await startProxy({ env });
    expect(await proxy.serving.ledger.hold(holdOf("a", usd("1")))).toMatchObject({ ok: true });
  }
  const db = new Database(folder.database);
  db.exec("create trigger broken before update on charges begin select raise(abort, 'broken ledger'); end");
  db.close();
  await expect(startProxy({ env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" } })).rejects.toThrow(
    "broken ledger",
  );
});
