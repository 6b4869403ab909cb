import { parseDocument } from "yaml";
import { settingNames } from "../../src/config/table.ts";
import { codeBlocks, documents } from "./documents.ts";

/** Fenced block of a page. */
export interface Block {
  /** "docs/backup.md:7" */
  readonly place: string;
  readonly language: string;
  readonly code: string;
}

/** Blocks by page, without those of the changelog, which shows former commands. */
export const blocksByPage: ReadonlyMap<string, readonly Block[]> = new Map(
  [...documents]
    .filter(([page]) => page !== "CHANGELOG.md")
    .map(([page, text]) => [
      page,
      codeBlocks(text).map(({ line, ...block }) => ({ place: `${page}:${line}`, ...block })),
    ]),
);

export const blocks = [...blocksByPage.values()].flat();

/** Rule that covers a block. A block without a rule fails the tests. */
type Rule =
  /** Commands: test/system/docs/commands.test.ts runs them. */
  | "commands"
  /** "$ ", a command and its output: test/system/docs/commands.test.ts runs the command. */
  | "transcript"
  /** Usage of a command: test/unit/docs/commands.test.ts finds the command. */
  | "usage"
  /** Part of a price file, or the fields of one model: test/unit/docs/blocks.test.ts checks them as `prices check` does. */
  | "prices"
  | "model"
  /** File for `apply`, and `farebox.yaml`: test/unit/docs/blocks.test.ts reads them. */
  | "apply"
  | "settings"
  /** Configuration of Prometheus: test/system/docs/prometheus.test.ts checks it with promtool. */
  | "prometheus"
  /** Valid YAML, JSON or PromQL of other programs: test/unit/docs/blocks.test.ts parses it. */
  | "yaml"
  | "json"
  | "promql"
  /** Not run, for the reason that `languages` states. */
  | "other";

/** Rules by language, for languages that have one rule. */
const languages: Readonly<Record<string, Rule>> = {
  sh: "commands",
  bash: "commands",
  json: "json",
  promql: "promql",
  // Diagrams and output without a command.
  text: "other",
  // Code and settings of clients. `npm run test:clients` tests Farebox with real clients.
  python: "other",
  ts: "other",
  toml: "other",
  // For an administrator of PostgreSQL, and for DuckDB.
  sql: "other",
  // An alert.
  http: "other",
  // test/unit/wire/webhook-signature.test.ts runs it.
  js: "other",
  // Units of systemd. test/unit/docs/commands.test.ts checks their commands and settings.
  ini: "other",
};

/** Rules for YAML. A block has the first rule of which it has one of the members. */
const yamlRules: readonly (readonly [Rule, readonly string[]])[] = [
  ["prometheus", ["scrape_configs", "rule_files"]],
  // Continue and promptfoo.
  ["yaml", ["schema", "providers"]],
  [
    "prices",
    ["groups", "gateway", "provider", "models", "default", "defaults", "routes", "task_minutes", "task_units"],
  ],
  ["model", ["prices", "tasks"]],
  ["apply", ["teams", "keys", "budgets"]],
  ["settings", settingNames],
];

/** Returns the rule for a block; undefined if there is none, or if its YAML cannot be parsed. */
export function ruleOf({ language, code }: Pick<Block, "language" | "code">): Rule | undefined {
  if (language === "yaml") {
    const document = parseDocument(code);
    const members = document.errors.length > 0 ? [] : Object.keys(document.toJS() ?? {});
    return yamlRules.find(([, marks]) => members.some((member) => marks.includes(member)))?.[0];
  }
  if (language !== "") return languages[language];
  if (code.startsWith("$ ")) return "transcript";
  return code.startsWith("farebox ") ? "usage" : undefined;
}

/** Returns the blocks that these rules cover. */
export function blocksWith(...rules: readonly Rule[]): readonly Block[] {
  return blocks.filter((block) => rules.some((rule) => rule === ruleOf(block)));
}
