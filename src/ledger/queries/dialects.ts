import { agentTags } from "../../core/keys.ts";
import type { Statement } from "./query.ts";

/** SQL that differs between the two databases. */
export interface Dialect {
  /**
   * Returns the expression for the value of a tag or label in a JSON column. The value is null if the tag or label is
   * missing.
   */
  member(column: "tags" | "labels", name: string): Statement;
  /**
   * Returns the expression for the value of a tag that an agent states. It has no parameter, so the indexes on the
   * sessions of agents apply to it.
   */
  agentTag(tag: keyof typeof agentTags): string;
  /** Returns the condition that a text matches a pattern. In the pattern, `*` matches any characters. */
  matches(text: string, pattern: string): Statement;
  /** Returns the SQL function that lists the texts of a column's JSON array, as rows with the column `value`. */
  textsIn(column: string): string;
  /** SQL function that lists the values of a JSON array, as rows with the column `value`. */
  readonly eachOf: "json_each(?)" | "json_array_elements(cast(? as json))";
  /**
   * Returns the expression that combines rows into the text of a JSON array. Each row becomes an array of these
   * columns.
   */
  jsonOf(columns: readonly string[]): string;
  /**
   * Returns the condition that a column's value is in a JSON array. The database can use an index on the column. For a
   * column without an index, use `isAmong`: with this condition, PostgreSQL would compare each row with each element.
   */
  isIn(column: string, type?: "text" | "bigint"): string;
  /**
   * Statement that joins the budgets in `current` with their windows. It adds `subject`, `all_spent` and `all_held`,
   * which are null for a budget without a window.
   */
  readonly windowsOfCurrent: string;
  /**
   * Condition that a key has no window in a budget of `current`. `used` contains the windows. Each database has its own
   * form, because it is slow with the other one.
   */
  readonly hasNoWindow: string;
  /** SQL function that lists the texts of a JSON array, as rows with the column `value`. */
  readonly textsOf: "json_each(?)" | "json_array_elements_text(cast(? as json))";
  /** Returns the expression for the part of a text before its first space. */
  firstWord(text: string): string;
  /** Returns the expression for the position of `part` in `whole`, from 1; 0 if `whole` does not contain `part`. */
  position(part: string, whole: string): string;
  /**
   * Table `charges` for reading pending rows. On SQLite, it forces the index of pending charges. Otherwise, a condition
   * on a key would make SQLite read all charges of that key.
   */
  readonly pendingCharges: string;
  /** Hint after `charges` that makes SQLite read all charges in order of time. */
  readonly byTime: string;
  /** Hint after `charges` that makes SQLite find charges by `seq`, such as the newest ones. */
  readonly bySeq: string;
  /** Hint after `charges` that makes SQLite read the charges of the sessions of agents in order of time. */
  readonly ofAgents: string;
  /** Hint after `charges` that makes SQLite find the charges of a session of an agent. */
  readonly ofAgentSession: string;
  /** Hint after `charges` that makes SQLite find corrections by their index. */
  readonly byCorrection: string;
  /** Columns of `charges` that are unique together. */
  readonly chargeKey: string;
  /**
   * Returns the statements that create the partition of `charges` for an instant if it is missing. SQLite needs none.
   */
  ensurePartition(at: number): readonly Statement[];
  /**
   * Number of charges that retention replaces in one transaction. Other writers wait for this transaction on SQLite,
   * but not on PostgreSQL.
   */
  readonly carriedAtOnce: number;
  /** Statements that make corrections and other prunes wait until the transaction ends. */
  readonly lockCarried: readonly Statement[];
  /** True if each sum of a rollup is divided among rows with different values of `shard`. */
  readonly isSharded: boolean;
  /** Expression for the windows linked to a pending charge, as text such as "1,2". */
  readonly linksOfCharge: string;
  /** Returns the statement that selects the windows of a charge as rows with the column `win`. */
  links(charge: number): Statement;
  /** Returns the statements that link a charge to exactly these windows. */
  setLinks(charge: number, windows: readonly number[]): readonly Statement[];
  /** Returns the statements that remove the links of settled charges. */
  unlinkCharges(charges: readonly number[]): readonly Statement[];
  /** Returns the statements that remove windows with their links. */
  removeWindows(windows: readonly number[]): readonly Statement[];
}

/** Returns the condition that an expression without an index has a value in a JSON array of texts. */
export function isAmong({ textsOf }: Pick<Dialect, "textsOf">, expression: string): string {
  return `${expression} in (select value from ${textsOf} listed)`;
}

export const sqliteDialect: Dialect = {
  member: (column, name) => ({ sql: `${column} ->> ?`, values: [`$."${name}"`] }),
  agentTag: (tag) => `(tags ->> '$."${agentTags[tag]}"')`,
  matches: (text, pattern) => ({ sql: `${text} glob ?`, values: [pattern.replaceAll(/[?[]/g, "[$&]")] }),
  textsIn: (column) => `json_each(${column})`,
  eachOf: "json_each(?)",
  jsonOf: (columns) => `json_group_array(json_array(${columns.join(", ")}))`,
  isIn: (column) => `${column} in (select value from json_each(?))`,
  windowsOfCurrent: `select current.*, subject, spent as all_spent, held as all_held
    from current left join windows on budget = current.seq and windows.starts_at = current.starts_at`,
  hasNoWindow:
    "not exists (select 1 from windows where budget = current.seq and subject = keys.id and windows.starts_at = current.starts_at)",
  textsOf: "json_each(?)",
  firstWord: (text) => `substr(${text}, 1, instr((${text}) || ' ', ' ') - 1)`,
  position: (part, whole) => `instr(${whole}, ${part})`,
  pendingCharges: "charges indexed by charges_pending",
  byTime: "indexed by charges_by_time",
  bySeq: "not indexed",
  ofAgents: "indexed by charges_of_agents",
  ofAgentSession: "indexed by charges_of_agent_session",
  byCorrection: "indexed by charges_adjusting",
  chargeKey: "id",
  ensurePartition: () => [],
  carriedAtOnce: 200,
  lockCarried: [],
  isSharded: false,
  linksOfCharge:
    "(select group_concat(window) from (select window from charge_windows where charge = charges.seq order by window))",
  links: (charge) => ({
    sql: "select window as win from charge_windows where charge = ? order by window",
    values: [charge],
  }),
  setLinks: (charge, windows) => [
    { sql: "delete from charge_windows where charge = ?", values: [charge] },
    ...windows.map((window) => ({
      sql: "insert into charge_windows (charge, window) values (?, ?)",
      values: [charge, window],
    })),
  ],
  unlinkCharges: (charges) => [
    {
      sql: "delete from charge_windows where charge in (select value from json_each(?))",
      values: [JSON.stringify(charges)],
    },
  ],
  removeWindows: (windows) =>
    [
      "delete from charge_windows where window in (select value from json_each(?))",
      "delete from windows where seq in (select value from json_each(?))",
    ].map((sql) => ({ sql, values: [JSON.stringify(windows)] })),
};

export const postgresDialect: Dialect = {
  member: (column, name) => ({ sql: `cast(${column} as json) ->> cast(? as text)`, values: [name] }),
  agentTag: (tag) => `(cast(tags as json) ->> '${agentTags[tag]}' collate "C")`,
  matches: (text, pattern) => ({
    sql: `${text} like ?`,
    values: [pattern.replaceAll(/[\\%_]/g, "\\$&").replaceAll("*", "%")],
  }),
  textsIn: (column) => `json_array_elements_text(cast(${column} as json))`,
  eachOf: "json_array_elements(cast(? as json))",
  jsonOf: (columns) => `cast(coalesce(json_agg(json_build_array(${columns.join(", ")})), '[]') as text)`,
  isIn: (column, type = "text") =>
    `${column} = any(array(select cast(value as ${type}) from json_array_elements_text(cast(? as json))))`,
  // Without `offset`, PostgreSQL may read all past windows.
  windowsOfCurrent: `
    select current.*, subject, spent as all_spent, held as all_held
    from current left join lateral (
      select subject, spent, held from windows where budget = current.seq and windows.starts_at = current.starts_at offset 0
    ) windows on true`,
  hasNoWindow: "(current.seq, keys.id) not in (select seq, subject from used)",
  textsOf: "json_array_elements_text(cast(? as json))",
  firstWord: (text) => `split_part(${text}, ' ', 1)`,
  position: (part, whole) => `position(${part} in ${whole})`,
  pendingCharges: "charges",
  byTime: "",
  bySeq: "",
  ofAgents: "",
  ofAgentSession: "",
  byCorrection: "",
  chargeKey: "id, admitted_at",
  ensurePartition: (at) => [{ sql: "select farebox_ensure_partitions(?)", values: [at] }],
  carriedAtOnce: 1_000,
  lockCarried: [
    { sql: "select pg_advisory_xact_lock_shared('budgets'::regclass::oid::integer, 0)", values: [] },
    { sql: "select pg_advisory_xact_lock('carried'::regclass::oid::integer, 0)", values: [] },
  ],
  isSharded: true,
  linksOfCharge: "(select string_agg(win::text, ',' order by win) from unnest(charges.windows) win)",
  links: (charge) => ({
    sql: "select win from charges, unnest(windows) win where seq = ? order by win",
    values: [charge],
  }),
  setLinks: (charge, windows) => [
    {
      sql: "update charges set windows = cast(? as bigint[]) where seq = ?",
      values: [`{${windows.join(",")}}`, charge],
    },
  ],
  unlinkCharges: () => [],
  removeWindows: (windows) =>
    [
      `with gone as (select cast(? as bigint[]) as wins)
       update charges set windows = array(select win from unnest(windows) win where not win = any(gone.wins))
       from gone where state = 'pending' and windows && gone.wins`,
      "delete from windows where seq = any(cast(? as bigint[]))",
    ].map((sql) => ({ sql, values: [`{${windows.join(",")}}`] })),
};
