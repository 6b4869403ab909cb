import { cell as escaped, table } from "../../scripts/docs/markdown.ts";
import { momentOf } from "./moments.ts";
import { modes, type Mode, type ScenarioName, type Unknown } from "./peer.ts";
import type { Comparison, Figures, PeerFacts, Report, Result } from "./result.ts";
import { scenarios } from "./scenarios.ts";

/** One row of the tables: a peer in one configuration. */
interface Row {
  readonly peer: string;
  readonly mode: Mode;
  readonly facts: PeerFacts;
  readonly results: ReadonlyMap<ScenarioName, Result>;
}

interface Part {
  readonly heading: string;
  readonly about: string;
  readonly columns: readonly ScenarioName[];
  cell(figures: Figures, scenario: ScenarioName): string;
}

/** States recorded by runs before this repository's history was joined into one commit. */
const joinedStates: readonly unknown[] = ["5233c3b4", "c31cac8c", "c336ac76"];
const folder = "[bench/results/money](../bench/results/money)";

const parts: readonly Part[] = [
  {
    heading: "Hard budgets",
    about: `The gateway's bill as a percentage of the budget. Above 100%, the budget did not hold; if nothing is refused, the three bursts, the streams
through the end, the streams in one burst and the restart cost 1,351%, 133%, 400% and 595%. In parentheses: requests that were refused although the
rest of the budget would have paid for them. An answer that does not arrive within 60 seconds counts as no answer.`,
    columns: [
      "burst",
      "burst-with-retries",
      "burst-max-tokens",
      "streams-through-the-end",
      "one-burst",
      "restart-in-window",
    ],
    cell: (figures) =>
      `${percent(figures.billedPercentOfLimit)} (${figures.refusedThatWouldHaveFit ?? "–"})${unansweredMark(figures)}`,
  },
  {
    heading: "Ledger",
    about: `Share of the gateway's bill that the product's own ledger records for the key. Below 100%, money is missing in the ledger. Above 100%, the
ledger records more than was billed.`,
    columns: [
      "leave-before-headers",
      "leave-half-way",
      "leave-plain",
      "gateway-cuts",
      "no-usage",
      "usage-not-asked",
      "custom-tool",
      "other-model",
      "task-polls",
    ],
    cell: (figures) => shareCell(figures) + unansweredMark(figures),
  },
  {
    heading: "kill -9",
    about: `First, the share of the bill that the ledger records after the restart, before the last 200 requests. Second, the bill at the end as a
percentage of the budget. All 260 requests together cost 260%, or less if streams were broken off. In parentheses: the progress of the first 60
requests at the kill, which comes at the stated moment or later. The columns count requests at the gateway, tokens that the gateway had written, and
clients with answers. \`about\`: the run did not record the progress, so it is estimated from the bill or from the clients' results.`,
    columns: ["kill-during-holds", "kill-during-answers", "kill-after-answers"],
    cell: (figures, scenario) => {
      const { checkpoint, billedPercentOfLimit } = figures;
      const share = checkpoint === null ? "–" : shareCell(checkpoint);
      return `${share}; ${percent(billedPercentOfLimit)} (${momentOf(scenario, figures)})`;
    },
  },
  {
    heading: "Errors that clients receive",
    about: `Number of clients for each status and error code in five scenarios. \`told\` in the JSON files in ${folder} contains the other scenarios.`,
    columns: ["burst-with-retries", "burst-max-tokens", "streams-through-the-end", "one-burst", "gateway-cuts"],
    cell: ({ told }) =>
      Object.entries(told)
        .toSorted(([, one], [, other]) => other - one)
        .map(([label, count]) => `${count} × ${escaped(label)}`)
        .join("<br>"),
  },
];

/** Writes the generated parts of docs/comparison.md from the figures of all runs. `order` lists the peers. */
export function comparisonParts(
  reports: readonly Report[],
  order: readonly string[],
): { readonly figures: string; readonly setup: string } {
  const rows = rowsOf(reports, order);
  return {
    figures: [...parts.map((part) => partText(part, rows)), strengthText(rows)].join("\n\n"),
    setup: [scenarioText(), versionText(rows), runText(reports)].join("\n\n"),
  };
}

function rowsOf(reports: readonly Report[], order: readonly string[]): readonly Row[] {
  const results = reports.flatMap((report) => report.results);
  const facts = Object.assign({}, ...reports.map(({ peers }) => peers)) as Readonly<Record<string, PeerFacts>>;
  return order.flatMap((peer) =>
    modes.flatMap((mode) => {
      const own = results.filter((result) => result.peer === peer && result.mode === mode);
      const known = facts[peer];
      if (known === undefined || own.length === 0) return [];
      return [{ peer, mode, facts: known, results: new Map(own.map((result) => [result.scenario, result])) }];
    }),
  );
}

function partText({ heading, about, columns, cell }: Part, rows: readonly Row[]): string {
  const head = ["product", ...columns.map((name) => scenarios[name].title)];
  const reasons = new Map<string, number>();
  const lines = rows.map((row) => [
    nameOf(row),
    ...columns.map((name) => {
      const figures = row.results.get(name)?.figures ?? { unknown: "it was not measured" };
      if (!("unknown" in figures)) return cell(figures, name);
      if (!reasons.has(figures.unknown)) reasons.set(figures.unknown, reasons.size + 1);
      return `unknown (${reasons.get(figures.unknown)})`;
    }),
  ]);
  const notes = [...reasons].map(([reason, number]) => `(${number}) ${escaped(reason)}`);
  return [
    `## ${heading}`,
    "",
    about,
    "",
    table(head, lines),
    ...(notes.length === 0 ? [] : ["", ...notes.map((note) => `- ${note}`)]),
  ].join("\n");
}

function nameOf({ facts, mode }: Row): string {
  if (facts.configurations.strictest === null) return facts.title;
  return mode === "default" ? facts.title : `${facts.title}, strictest`;
}

/** Rounds to whole percentages, except close to 100. Only exactly 100 is shown as 100%. */
function percent(value: number): string {
  const isClose = Math.round(value) === 100 && value !== 100;
  return `${(isClose ? value : Math.round(value)).toLocaleString("en-US")}%`;
}

/** Marks a cell if clients got no answer. Its figure then shows what was billed, not what the clients could use. */
function unansweredMark({ told, sent }: Figures): string {
  const unanswered = told["no answer"] ?? 0;
  return unanswered === 0 ? "" : `; ${unanswered} of ${sent} clients got no answer`;
}

function shareCell({ recordedPercent: share }: Pick<Comparison, "recordedPercent">): string {
  if (share === null) return "nothing billed";
  return typeof share === "number" ? percent(share) : `unknown: ${(share satisfies Unknown).unknown}`;
}

function scenarioText(): string {
  const lines = Object.entries(scenarios).map(([name, { title, about }]) => `- **${title}** (\`${name}\`): ${about}`);
  return ["## Scenarios", "", ...lines].join("\n");
}

function versionText(rows: readonly Row[]): string {
  const lines = rows.map((row) => {
    const settings = (row.facts.configurations[row.mode] ?? []).map(
      ({ setting, url }) => `[${settingText(setting)}](${url})`,
    );
    const days = [...new Set([...row.results.values()].map(({ day }) => day ?? "unknown"))].toSorted();
    const loads = [...row.results.values()].flatMap(({ loadAverage: load }) => (load === undefined ? [] : [load]));
    const range = [...new Set([Math.min(...loads), Math.max(...loads)])].join(" to ");
    const isPartial = loads.length < row.results.size;
    const load = loads.length === 0 ? "not recorded" : `${range}${isPartial ? ", partly not recorded" : ""}`;
    const isolated = [...row.results.values()].every(({ isNamespaced }) => isNamespaced === true) ? "yes" : "no";
    return [nameOf(row), row.facts.version, days.join(", "), load, isolated, settings.join("; ")];
  });
  const head = ["product", "version", "day", "load average", "own network namespace", "settings, each with its source"];
  const about =
    "Settings that differ from the product's defaults, except addresses, ports, folders and secrets. The strictest configuration also has the settings of the default configuration, unless it states other values.";
  return `## Versions and settings\n\n${about}\n\n${table(head, lines)}`;
}

function strengthText(rows: readonly Row[]): string {
  const lines = rows
    .filter(({ facts, mode }) => mode === "default" && facts.strengths !== "")
    .map(({ facts }) => `- **[${facts.title}](${facts.homepage})**: ${facts.strengths}`);
  return ["## Strengths of each product", "", ...lines].join("\n");
}

function settingText(setting: string): string {
  return setting.includes(" ") ? setting : `\`${setting}\``;
}

function runText(reports: readonly Report[]): string {
  const of = (name: string) =>
    [...new Set(reports.map(({ machine }) => String(machine[name] ?? "unknown")))].join(", ");
  const measured = reports.flatMap(({ results }) => results);
  const without = (name: "commit" | "loadAverage") => measured.filter((result) => result[name] === undefined).length;
  const commits = new Set(measured.flatMap(({ commit }) => (commit === undefined ? [] : [commit])));
  const known = [...commits].filter((commit) => !joinedStates.includes(commit)).toSorted();
  return `## Machine and commits

${of("cpu")}, ${of("cores")} cores, Node ${of("node")}. The load averages above include the benchmark itself. Above ${of("cores")}, the machine
also did other work. That work affects streams that wait for a ledger, and the number of requests of a burst that pass before the first charge. So
compare only rows of similar load. The JSON files in ${folder} have every figure, with its day, load and commit.

- **Figures of 23 November** were measured at states of Farebox before its history was joined into one commit, so their commits
  (${joinedStates.join(", ")}) cannot be checked out.
- **Not recorded**: the earliest runs recorded neither their commit nor their load. Of the ${measured.length} results, ${without("commit")} have no commit, and
  ${without("loadAverage")} have no load.
- **Commits of later figures**: ${known.length === 0 ? "none yet" : known.join(", ")}. \`-dirty\` means that the code differed from the commit.`;
}
