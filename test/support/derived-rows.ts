import Database from "better-sqlite3";

/** Returns all derived rows of a ledger file as stored, and its charges. */
export function derivedRows(path: string) {
  const db = new Database(path, { readonly: true });
  const all = (sql: string) => db.prepare(sql).raw().safeIntegers().all();
  const seen = {
    windows: all("select * from windows order by seq"),
    days: all("select * from rollup_day"),
    quarters: all("select * from rollup_quarter"),
    carried: all("select * from carried"),
    links: all("select * from charge_windows where charge in (select seq from charges where state = 'pending')"),
    charges: all("select * from charges order by seq"),
  };
  db.close();
  return seen;
}

/** Runs SQL on a file, as a careless administrator or a bug does. */
export function tamper(path: string, sql: string): void {
  const db = new Database(path);
  db.exec(`pragma foreign_keys = off; pragma ignore_check_constraints = on; ${sql}`);
  db.close();
}
