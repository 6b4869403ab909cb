import { objectOr } from "../../wire/json.ts";
import { basename } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { formatFault, suggest } from "../../core/fault.ts";
import { matchesPattern } from "../../core/keys.ts";
import type {
  EditedFile,
  PriceCheckFault,
  PriceImport,
  PriceImportParams,
  PriceImportResult,
  PriceTableName,
} from "../../ports/price-import.ts";
import { buildCatalogue, type CatalogueBuilder, type Origins, type PriceText } from "../build.ts";
import { readPriceFile } from "../read.ts";
import type { StatedPrice } from "../schema.ts";
import { printProposals, withEntries } from "./edit.ts";
import { readTree, type LeftOutModel } from "./table.ts";
import { isProvider, readGenaiPrices } from "./genai-prices.ts";
import { isModel, readLitellm } from "./litellm.ts";
import { mergeModels } from "./merge.ts";
import {
  inForce,
  matchModels,
  priceChanges,
  propose,
  type NamedTable,
  type PriceChange,
  type Proposal,
} from "./propose.ts";

/**
 * Returns the differences between the tables and the price files, as a new price file and as edits of the user's files.
 * All these files are valid together. A pure function. The last of at least two layers has the user's files. A process
 * that imports into the same files repeatedly can pass a caching `build`.
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
  const groups = built.origins.groups;
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

  const formats = [...new Set(read.tables.map(({ format }) => format))];
  const name = freeName(`imported-${formats.join("-")}-${params.fromDate}`, layersOf(layers).own);
  const title = titleOf(read.tables, params.today);
  const valid = withoutFaults(layers, name, title, proposals);
  const { edited, paths } = editOwn(layers, name, title, valid.proposals);
  const forNewFile = valid.proposals.filter((proposal) => !paths.has(proposal));
  return {
    ok: true,
    imported: {
      proposed: valid.proposals.map((proposal) => proposedOf(proposal, paths.get(proposal) ?? null)),
      unchanged,
      differing,
      left_out: [...leftOut, ...valid.leftOut],
      name,
      yaml: forNewFile.length === 0 ? "" : printProposals(title, forNewFile),
      edited,
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
    const changes = priceChanges(
      price,
      merged.model.serviceTiers(params.today),
      inForce(origin.model.prices ?? [], params.today) ?? null,
    );
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

interface FormattedTable extends NamedTable {
  readonly format: PriceTableName;
}

const readers = { "genai-prices": readGenaiPrices, litellm: readLitellm } as const;

type TablesResult = { readonly ok: true; readonly tables: readonly FormattedTable[] } | Refused;

/** Reads all tables, each in its own format. */
function readTables(
  { tables, from, providers }: Pick<PriceImportParams, "tables" | "from" | "providers">,
  families: ReadonlySet<string>,
): TablesResult {
  const wants = (name: string, family: string) =>
    providers === null ? families.has(family) : providers.includes(name);
  const read: FormattedTable[] = [];
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
    read.push({ name: `${format} (${lastPart(file)})`, format, table: result.table });
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
 * Returns a file name that no file of the user has: "imported-litellm-2026-11-22.yaml", or with a number, such as
 * "imported-litellm-2026-11-22-2.yaml".
 */
function freeName(stem: string, own: readonly PriceText[]): string {
  const taken = new Set(own.map((file) => basename(file.name)));
  for (let count = 1; ; count++) {
    const name = `${stem}${count === 1 ? "" : `-${count}`}.yaml`;
    if (!taken.has(name)) return name;
  }
}

function titleOf(tables: readonly FormattedTable[], today: string): string[] {
  return [
    `Proposed by farebox prices import from ${tables.map(({ name }) => name).join(" and ")} on ${today}: to be reviewed.`,
    "A model in this file replaces the model of the same id in earlier files, so its earlier prices are repeated here.",
    "",
  ];
}

/** Splits layers into those of the package and the user's, which is the last of at least two. */
function layersOf(layers: readonly (readonly PriceText[])[]) {
  const last = Math.max(layers.length - 1, 1);
  return { shipped: layers.slice(0, last), own: layers[last] ?? [] };
}

/**
 * Adds new entries to the user's files that state the same models. Returns the edited files, and the path for each
 * proposal that was added. The user must add the other proposals for these models by hand.
 */
function editOwn(
  layers: readonly (readonly PriceText[])[],
  name: string,
  title: readonly string[],
  proposals: readonly Proposal[],
) {
  const { shipped, own } = layersOf(layers);
  const texts = new Map(own.map((file) => [file.name, file.text]));
  const paths = new Map<Proposal, string>();
  for (const proposal of proposals) {
    const path = proposal.ownPlace?.file;
    const text = path === undefined ? undefined : texts.get(path);
    const edited = text === undefined ? undefined : withEntries(text, proposal);
    if (path === undefined || edited === undefined || !readsAs(path, edited, proposal)) continue;
    const changed = new Map(texts).set(path, edited);
    if (!buildCatalogue([...shipped, [...changed].map(([file, whole]) => ({ name: file, text: whole }))]).ok) continue;
    texts.set(path, edited);
    paths.set(proposal, path);
  }
  const edited = own.flatMap(({ name: path, text }): EditedFile[] => {
    const after = texts.get(path) ?? text;
    return after === text ? [] : [{ path, before: text, after }];
  });
  const newFile = printProposals(
    title,
    proposals.filter((proposal) => !paths.has(proposal)),
  );
  const together = buildCatalogue([
    ...shipped,
    [...[...texts].map(([file, text]) => ({ name: file, text })), { name, text: newFile }],
  ]);
  return together.ok ? { edited, paths } : { edited: [], paths: new Map<Proposal, string>() };
}

/** Returns true if the edited text states the model with exactly the proposed prices. */
function readsAs(path: string, text: string, { id, model }: Proposal): boolean {
  const { value, faults } = readPriceFile(path, text);
  return faults.length === 0 && isDeepStrictEqual(value.models?.[id]?.prices, model.prices);
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
) {
  const { shipped, own } = layersOf(layers);
  const leftOut: LeftOutModel[] = [];
  let left = proposals;
  for (;;) {
    const text = printProposals(title, left);
    const built = buildCatalogue([...shipped, [...own, { name, text }]]);
    const faults = built.ok ? [] : built.faults.filter(({ file }) => file === name);
    if (faults.length === 0) return { proposals: left, leftOut };
    const lines = text.split("\n");
    const faulty = new Map(faults.map((fault) => [modelAt(lines, fault.line), fault.message]));
    const remaining = left.filter(({ id, ownPlace }) => ownPlace !== null || !faulty.has(id));
    // If no removable proposal contains a fault, the loop would never end.
    if (remaining.length === left.length)
      return { proposals: [], leftOut: left.map(({ id }) => ({ model: id, why: faults[0]?.message ?? "" })) };
    for (const { id } of left)
      if (faulty.has(id) && !remaining.some((each) => each.id === id))
        leftOut.push({ model: id, why: faulty.get(id) ?? "" });
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

function proposedOf(
  { id, kind, provider, ownPlace, added }: Proposal,
  addedTo: string | null,
): PriceImport["proposed"][number] {
  const entries = added.map(({ price, before }) => ({ from: price.from, changes: changesOf(price, before) }));
  return { model: id, kind, provider, added_to: addedTo, by_hand: addedTo === null ? ownPlace : null, entries };
}

function changesOf(price: StatedPrice, before: StatedPrice | null): readonly PriceChange[] {
  const fees = Object.fromEntries(Object.entries(price.fees ?? {}).map(([tool, { usd }]) => [tool, usd]));
  const table = {
    from: null,
    official: price.official ?? null,
    tiers: price.tiers ?? [],
    perRequest: price.per_request?.official ?? null,
    fees,
  };
  const tiers = Object.entries(price.service_tiers ?? {}).flatMap(([name, own]) =>
    own === undefined ? [] : [[name, { official: own.official, tiers: own.tiers ?? [] }]],
  );
  return priceChanges(table, Object.fromEntries(tiers), before);
}
