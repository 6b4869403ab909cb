import type { Builder, Dataquery } from "@grafana/grafana-foundation-sdk/cog";
import type { DataSourceRef } from "@grafana/grafana-foundation-sdk/common";

/** Differences between SQLite and PostgreSQL, and between Grafana's data sources for them. */
export interface Dialect {
  readonly name: "sqlite" | "postgres";
  /** Display name. */
  readonly title: string;
  /** Grafana's name for the type of data source. */
  readonly source: string;
  /** Converts pico-USD to USD as text with all twelve decimals, because a JSON number keeps only 15 digits. Null stays null. */
  usd(pico: string): string;
  /** Converts pico-USD to USD as a number for charts, exact to 15 digits. */
  usdNumber(pico: string): string;
  /** Converts milliseconds since 1970 to a time of the data source. */
  time(ms: string): string;
  /** Converts milliseconds since 1970 to the UTC date: "2026-11-21". */
  date(ms: string): string;
  /** Builds a target of a panel. `times` are the columns with times. */
  query(wish: {
    readonly refId: string;
    readonly sql: string;
    readonly shape: "table" | "series";
    readonly times: readonly string[];
  }): Builder<Dataquery>;
}

/** Marks a target for the SDK; JSON omits the function. */
const target = (query: object): Builder<Dataquery> => ({
  build: () => ({ ...query, _implementsDataqueryVariant() {} }),
});

const sourceOf = (type: string): DataSourceRef => ({ type, uid: "${datasource}" });

const sqliteSource = "frser-sqlite-datasource";
const postgresSource = "grafana-postgresql-datasource";

export const sqlite: Dialect = {
  name: "sqlite",
  title: "SQLite",
  source: sqliteSource,
  usd: (pico) =>
    `iif(${pico} is null, null, printf('%s%d.%012d', iif(${pico} < 0, '-', ''), abs(${pico}) / 1000000000000, abs(${pico}) % 1000000000000))`,
  usdNumber: (pico) => `${pico} / 1e12`,
  time: (ms) => `${ms} / 1000.0`,
  date: (ms) => `date(${ms} / 1000, 'unixepoch')`,
  query: ({ refId, sql, shape, times }) =>
    target({
      refId,
      datasource: sourceOf(sqliteSource),
      queryType: shape === "series" ? "time series" : "table",
      // The plugin's editor shows one of these fields, and its first query sends the other.
      rawQueryText: sql,
      queryText: sql,
      timeColumns: times,
    }),
};

export const postgres: Dialect = {
  name: "postgres",
  title: "PostgreSQL",
  source: postgresSource,
  usd: (pico) => `cast(cast(${pico} as numeric) * 0.000000000001 as text)`,
  usdNumber: (pico) => `cast(${pico} as double precision) / 1e12`,
  time: (ms) => `to_timestamp(${ms} / 1000.0)`,
  date: (ms) => `to_char(to_timestamp(${ms} / 1000) at time zone 'UTC', 'YYYY-MM-DD')`,
  query: ({ refId, sql, shape }) =>
    target({
      refId,
      datasource: sourceOf(postgresSource),
      format: shape === "series" ? "time_series" : "table",
      editorMode: "code",
      rawQuery: true,
      rawSql: sql,
    }),
};

export const chosen = (dialect: Dialect): DataSourceRef => sourceOf(dialect.source);
