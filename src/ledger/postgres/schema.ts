import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { holdColumns, noteColumns, postColumns } from "../charge-columns.ts";
import { migrationsOf } from "../migrations.ts";
import type { Statements } from "./connection.ts";
import { isLiveProxy } from "./owners.ts";

let loaded: { readonly sql: string; readonly digest: string } | null = null;

/** Returns the SQL text of this release's functions, and the digest of that text. */
function functions(): { readonly sql: string; readonly digest: string } {
  if (loaded !== null) return loaded;
  const template = readFileSync(new URL("functions.sql", import.meta.url), "utf8");
  const sql = template.replaceAll(/\$\{([a-z ]+)\}/g, (_, name: string) => partsOfSql[name as keyof typeof partsOfSql]);
  loaded = { sql, digest: digestOf(sql) };
  return loaded;
}

const holds = Object.entries(holdColumns.columns);
const settled = Object.entries({ ...postColumns.columns, ...noteColumns.columns });
const isAmount = (name: string) => name === "cost" || name === "list_cost";

/** SQL for the placeholders in `functions.sql`. `settled columns from g` omits the amounts: the functions compute them. */
const partsOfSql = {
  "live proxy": isLiveProxy,
  "hold columns": holds.map(([name]) => name).join(", "),
  "hold columns of h": holds.map(([name]) => `h.${name}`).join(", "),
  "hold columns with types": holds.map(([name, { type }]) => `${name} ${type}`).join(", "),
  "settled columns with types": settled.map(([name, { type }]) => `${name} ${type}`).join(", "),
  "settled columns from g": settled
    .filter(([name]) => !isAmount(name))
    .map(([name, { unset }]) => `${name} = ${unset === null ? `g.${name}` : `coalesce(g.${name}, ${unset})`}`)
    .join(", "),
};

/** Returns the digest of an SQL text without its comment lines and empty lines. */
function digestOf(sql: string): string {
  const codeLines = sql.split("\n").filter((line) => !/^\s*(--|$)/.test(line));
  return createHash("sha256").update(codeLines.join("\n")).digest("hex");
}

/** Returns the digest of this release's functions. */
export function functionsDigest(): string {
  return functions().digest;
}

/** Returns true if a ledger has the functions of this release. */
export async function hasOwnFunctions(db: Statements): Promise<boolean> {
  const newest = await db.row<{ functions: string | null }>(
    "select functions from farebox_migrations order by version desc limit 1",
  );
  return newest?.functions === functionsDigest();
}

/** Replaces the ledger's functions with those of this release. */
export async function applyFunctions(db: Statements): Promise<void> {
  await db.run(functions().sql);
  await db.run(
    "update farebox_migrations set functions = case when version = (select max(version) from farebox_migrations) then $1 end",
    [functionsDigest()],
  );
}

/** Runs the migrations with versions above `after`. Only the newest row has the digest of the functions. */
export async function runMigrations(db: Statements, after: number): Promise<void> {
  await db.run(
    "create table if not exists farebox_migrations (version bigint primary key, applied_at timestamptz not null default now(), functions text)",
  );
  for (const { version, sql } of migrationsOf("postgres")) {
    if (version <= after) continue;
    await db.run(sql());
    await db.run("insert into farebox_migrations (version) values ($1)", [version]);
  }
}
