import { objectOr } from "../../wire/json.ts";
import { basename } from "node:path";
import { formatFault, suggest } from "../../core/fault.ts";
import { matchesPattern } from "../../core/keys.ts";
import type {
  PriceCheckFault,
  PriceImportParams,
  PriceImportResult,
  PriceTableName,
} from "../../ports/price-import.ts";
import { buildCatalogue, type CatalogueBuilder, type Origins, type PriceText } from "../build.ts";
import { amountsOn, differences } from "./difference.ts";
import { readTree, type LeftOutModel } from "./table.ts";
import { isProvider, readGenaiPrices } from "./genai-prices.ts";
import { isModel, readLitellm } from "./litellm.ts";
import { mergeModels } from "./merge.ts";
import { printProposals } from "./print.ts";
import { matchModels, propose, type NamedTable, type Proposal } from "./propose.ts";

/**
 * Returns the differences between the tables and the price files as a new price file, which is valid together with the
 * others. A pure function. The last of at least two layers has the user's files. A process that imports into the same
 * files repeatedly can pass a caching `build`.
 */
export function importPrices(
  layers: readonly (readonly PriceText[])[],
  params: PriceImportParams,
  build: CatalogueBuilder = buildCatalogue,
): PriceImportResult {
  const built = build(layers);
  if (!built.ok) return refused(built.faults.map(formatFault));
  const read = readTables(params, familiesOf(built.origins));
  if (!read.ok) return read;
  const groups = [...built.origins.groups.keys()];
  const wantsModel = (id: string) =>
    params.models === null || params.models.some((pattern) => matchesPattern(pattern, id));
  const source = (names: readonly string[]) => `price list of ${names.join(" and ")}, read ${params.today}`;
  const terms = { fromDate: params.fromDate, source, group: params.group, wantsModel, withNew: params.withNew };
  const { proposals, unchanged, differing, leftOut } = propose(read.tables, built, terms);
  if (!groups.includes(params.group) && proposals.some(({ kind }) => kind === "new")) {
    return refused(
      `new models need a group, but there is no group "${params.group}"; give --group: ${suggest(params.group, groups)}`,
      true,
    );
  }

  const name = freeName(`imported-${params.fromDate}`, layersOf(layers).own);
  const title = titleOf(read.tables, params.today);
  const valid = withoutFaults(layers, name, title, proposals);
  return {
    ok: true,
    imported: {
      proposed: valid.proposals.map(({ id, kind, provider, entries }) => ({ model: id, kind, provider, entries })),
      unchanged,
      differing,
      left_out: [...leftOut, ...valid.leftOut],
      name,
      yaml: valid.proposals.length === 0 ? "" : printProposals(title, valid.proposals),
    },
  };
}

/**
 * Returns the prices on which the tables agree with each other but not with the price files. Also returns the models
 * that at least two tables contain but no price file does.
 */
export function checkPrices(
  layers: readonly (readonly PriceText[])[],
  params: Pick<PriceImportParams, "tables" | "from" | "today">,
): PriceCheckResult {
  const built = buildCatalogue(layers);
  if (!built.ok) return refused(built.faults.map(formatFault));
  const read = readTables({ ...params, providers: null }, familiesOf(built.origins));
  if (!read.ok) return read;
  const { known, unlisted } = matchModels(read.tables, built.origins);
  const terms = { day: params.today, tablesMin: 2 };
  let compared = 0;
  const faults = known.flatMap(({ id, origin, found }): PriceCheckFault[] => {
    const merged = found.length < 2 ? undefined : mergeModels(found, terms);
    const [price] = merged?.ok === true ? merged.model.prices : [];
    if (merged?.ok !== true || price === undefined) return [];
    compared += 1;
    const changes = differences(price, merged.model.serviceTiers(params.today), amountsOn(params.today, id, origin));
    return changes.flatMap((each) => ({
      model: id,
      class: each.class,
      ours: each.before,
      theirs: each.after ?? "none",
    }));
  });
  const isKnown = (id: string) => built.catalogue.named(id, Date.parse(params.today)) !== undefined;
  const missing = unlisted.flatMap((found) =>
    found.length >= 2 && !isKnown(found[0].model.id) && mergeModels(found, terms).ok ? [found[0].model.id] : [],
  );
  return { ok: true, compared, faults, missing };
}

type PriceCheckResult =
  | {
      readonly ok: true;
      readonly compared: number;
      readonly faults: readonly PriceCheckFault[];
      readonly missing: readonly string[];
    }
  | Refused;

type Refused = PriceImportResult & { readonly ok: false };

function refused(problems: string | readonly string[], usage = false): Refused {
  return { ok: false, problems: typeof problems === "string" ? [problems] : problems, usage };
}

function familiesOf({ models }: Origins): ReadonlySet<string> {
  return new Set([...models.values()].map(({ provider }) => provider));
}

const readers = { "genai-prices": readGenaiPrices, litellm: readLitellm } as const;

type TablesResult = { readonly ok: true; readonly tables: readonly NamedTable[] } | Refused;

/** Reads all tables, each in its own format. */
function readTables(
  { tables, from, providers }: Pick<PriceImportParams, "tables" | "from" | "providers">,
  families: ReadonlySet<string>,
): TablesResult {
  const wants = (name: string, family: string) =>
    providers === null ? families.has(family) : providers.includes(name);
  const read: NamedTable[] = [];
  for (const { file, text } of tables) {
    const tree = readTree(text);
    if (!tree.ok) return refused(`${file} is neither JSON nor YAML: ${tree.problem}`);
    const format = from ?? formatOf(tree.value);
    if (format === undefined) {
      return refused(
        `${file} is not a known table: it should be genai-prices' data.json, one of its providers' YAML files, or litellm's model_prices_and_context_window.json`,
      );
    }
    const result = readers[format](tree.value, wants);
    if (!result.ok) return refused(`${file} is ${result.problem}`);
    read.push({ name: `${format} (${lastPart(file)})`, table: result.table });
  }
  const known = read.flatMap(({ table }) => table.providers);
  const unknown = (providers ?? []).find((name) => !known.includes(name));
  if (unknown !== undefined)
    return refused(
      `${tables.map(({ file }) => file).join(", ")} has no provider "${unknown}"; ${suggest(unknown, known)}`,
      true,
    );
  return { ok: true, tables: read };
}

/**
 * Detects the format of a table from its structure: a list of providers, one provider, or an object by model. Returns
 * undefined for other structures.
 */
function formatOf(tree: unknown): PriceTableName | undefined {
  if (isProvider(tree) || (Array.isArray(tree) && tree.length > 0 && tree.every(isProvider))) return "genai-prices";
  return Object.values(objectOr(tree)).some(isModel) ? "litellm" : undefined;
}

/** Returns the last part of a path or URL, without a query. */
function lastPart(file: string): string {
  return basename(file.replace(/^(https?:\/\/[^?#]*).*$/, "$1"));
}

/**
 * Returns a file name that no file of the user has: "imported-2026-11-22.yaml", or with a number, such as
 * "imported-2026-11-22-2.yaml".
 */
function freeName(stem: string, own: readonly PriceText[]): string {
  const taken = new Set(own.map((file) => basename(file.name)));
  for (let count = 1; ; count++) {
    const name = `${stem}${count === 1 ? "" : `-${count}`}.yaml`;
    if (!taken.has(name)) return name;
  }
}

function titleOf(tables: readonly NamedTable[], today: string): string[] {
  return [
    `Proposed by farebox prices import from ${tables.map(({ name }) => name).join(" and ")} on ${today}: to be reviewed.`,
    "Amounts that no table states stay as they are.",
    "",
  ];
}

/** Splits layers into those of the package and the user's, which is the last of at least two. */
function layersOf(layers: readonly (readonly PriceText[])[]) {
  const last = Math.max(layers.length - 1, 1);
  return { shipped: layers.slice(0, last), own: layers[last] ?? [] };
}

/**
 * Returns the proposals that are valid together with the existing files. Also returns the removed models, with the
 * reason for each.
 */
function withoutFaults(
  layers: readonly (readonly PriceText[])[],
  name: string,
  title: readonly string[],
  proposals: readonly Proposal[],
): { readonly proposals: readonly Proposal[]; readonly leftOut: readonly LeftOutModel[] } {
  const { shipped, own } = layersOf(layers);
  const leftOut: LeftOutModel[] = [];
  const faultsOf = (some: readonly Proposal[]) => {
    const text = printProposals(title, some);
    const built = buildCatalogue([...shipped, [...own, { name, text }]]);
    return { text, faults: built.ok ? [] : built.faults };
  };
  let left = proposals;
  for (;;) {
    const { text, faults } = faultsOf(left);
    if (faults.length === 0) return { proposals: left, leftOut };
    const lines = text.split("\n");
    const faulty = new Map(
      faults.filter(({ file }) => file === name).map((fault) => [modelAt(lines, fault.line), fault.message]),
    );
    // A proposal can also make another file faulty: for example, one that changes a tier that the proposal removes.
    if (!left.some(({ id }) => faulty.has(id))) {
      for (const proposal of left) {
        const [fault] = faultsOf([proposal]).faults;
        if (fault !== undefined) faulty.set(proposal.id, formatFault(fault));
      }
    }
    const remaining = left.filter(({ id }) => !faulty.has(id));
    const [why = ""] = faults.map(formatFault);
    if (remaining.length === left.length)
      return { proposals: [], leftOut: [...leftOut, ...left.map(({ id }) => ({ model: id, why }))] };
    leftOut.push(...left.flatMap(({ id }) => (faulty.has(id) ? [{ model: id, why: faulty.get(id) ?? "" }] : [])));
    left = remaining;
  }
}

/** Returns the id of the model that contains this line. */
function modelAt(lines: readonly string[], line: number): string {
  const head = lines.slice(0, line).findLast((text) => /^ {2}[^ #]/.test(text)) ?? "";
  return head
    .trim()
    .replace(/:$/, "")
    .replace(/^(["'])(.*)\1$/, "$2");
}
