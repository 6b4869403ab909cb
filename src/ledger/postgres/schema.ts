import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { holdColumns, noteColumns, postColumns } from "../charge-columns.ts";
import { migrationsOf } from "../migrations.ts";
import type { Statements } from "./connection.ts";

/** The schema version that has the digest of the functions. */
const digestSince = 5;

let read: { readonly sql: string; readonly digest: string } | null = null;

function functions(): { readonly sql: string; readonly digest: string } {
  if (read !== null) return read;
  const template = readFileSync(new URL("functions.sql", import.meta.url), "utf8");
  const sql = template.replaceAll(
    /\$\{([a-z ]+)\}/g,
    (_, name: string) => columnsInSql[name as keyof typeof columnsInSql],
  );
  read = { sql, digest: digestOf(sql) };
  return read;
}

const holds = Object.entries(holdColumns.columns);
const settled = Object.entries({ ...postColumns.columns, ...noteColumns.columns });
const isAmount = (name: string) => name === "cost" || name === "list_cost";

/** Lists of columns in `functions.sql`. The amounts of a settlement are decided there. */
const columnsInSql = {
  "hold columns": holds.map(([name]) => name).join(", "),
  "hold columns of h": holds.map(([name]) => `h.${name}`).join(", "),
  "hold columns with types": holds.map(([name, { type }]) => `${name} ${type}`).join(", "),
  "settled columns with types": settled.map(([name, { type }]) => `${name} ${type}`).join(", "),
  "settled columns from g": settled
    .filter(([name]) => !isAmount(name))
    .map(([name, { unset }]) => `${name} = ${unset === null ? `g.${name}` : `coalesce(g.${name}, ${unset})`}`)
    .join(", "),
};

/** Of what the server would run: whole lines of comment, and empty ones, change nothing. */
function digestOf(sql: string): string {
  const run = sql.split("\n").filter((line) => !/^\s*(--|$)/.test(line));
  return createHash("sha256").update(run.join("\n")).digest("hex");
}

/** Says which functions this release was written for. */
export function functionsDigest(): string {
  return functions().digest;
}

/** Whether the functions of a ledger of this schema version are those of this release. */
export async function hasOwnFunctions(db: Statements, schema: number): Promise<boolean> {
  if (schema < digestSince) return false;
  const newest = await db.row<{ functions: string | null }>(
    "select functions from farebox_migrations order by version desc limit 1",
  );
  return newest?.functions === functionsDigest();
}

/** Replaces the functions of the ledger by those of this release. */
export async function applyFunctions(db: Statements): Promise<void> {
  await db.run(functions().sql);
  await db.run(
    "update farebox_migrations set functions = case when version = (select max(version) from farebox_migrations) then $1 end",
    [functionsDigest()],
  );
}

/** Runs the migrations after one version, and not those after another one. */
export async function makeTables(db: Statements, after: number, until = Infinity): Promise<void> {
  await db.run(
    "create table if not exists farebox_migrations (version bigint primary key, applied_at timestamptz not null default now())",
  );
  for (const { version, sql } of migrationsOf("postgres")) {
    if (version <= after || version > until) continue;
    await db.run(sql());
    await db.run("insert into farebox_migrations (version) values ($1)", [version]);
  }
}
