import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { matchesPattern } from "../../core/keys.ts";
import type { PriceImport, PriceImportOrder, PriceImportResult } from "../../ports/price-import.ts";
import { buildCatalogue, type PriceText } from "../build.ts";
import { formatFault, suggest } from "../../core/fault.ts";
import { readTree } from "./exact.ts";
import { readGenaiPrices } from "./genai-prices.ts";
import { readLitellm } from "./litellm.ts";
import { printProposals } from "./print.ts";
import { changedClasses, changedFees, propose, type Proposal } from "./propose.ts";
import type { LeftOut } from "./table.ts";

/** What the table states otherwise than the price files, as a price file that is sound beside them. Pure. */
export function importPrices(layers: readonly (readonly PriceText[])[], order: PriceImportOrder): PriceImportResult {
  const wrong = (problems: string | readonly string[], usage = false): PriceImportResult => ({ ok: false, problems: typeof problems === "string" ? [problems] : problems, usage });
  const built = buildCatalogue(layers);
  if (!built.ok) return wrong(built.faults.map(formatFault));
  const tree = readTree(order.text);
  if (!tree.ok) return wrong(`${order.file} is neither JSON nor YAML: ${tree.problem}`);
  const families = new Set([...built.origins.models.values()].map(({ provider }) => provider));
  const wants = (name: string, family: string) => (order.providers === null ? families.has(family) : order.providers.includes(name));
  const read = (order.from === "litellm" ? readLitellm : readGenaiPrices)(tree.value, wants);
  if (!read.ok) return wrong(`${order.file} is ${read.problem}`);
  const unknown = (order.providers ?? []).find((name) => !read.table.providers.includes(name));
  if (unknown !== undefined) return wrong(`${order.file} has no provider "${unknown}"; ${suggest(unknown, read.table.providers)}`, true);
  const groups = [...built.origins.groups.keys()];
  const wantsModel = (id: string) => order.models === null || order.models.some((pattern) => matchesPattern(pattern, id));
  const source = `price list of ${order.from} (${basename(order.file)}), read ${order.today}`;
  const { proposals, unchanged, leftOut } = propose(read.table, built, { fromDate: order.fromDate, source, group: order.group, wantsModel, withNew: order.withNew });
  if (!groups.includes(order.group) && proposals.some(({ kind }) => kind === "new")) {
    return wrong(`new models need a group, and there is no "${order.group}"; give --group: ${suggest(order.group, groups)}`, true);
  }

  const name = `imported-${order.from}-${order.fromDate}.yaml`;
  const title = titleOf(order);
  const sound = soundBeside(layers, name, title, proposals);
  const kept = sound.proposals;
  return {
    ok: true,
    imported: {
      proposed: kept.map(proposedOf),
      unchanged,
      left_out: [...leftOut, ...sound.leftOut],
      name,
      yaml: kept.length === 0 ? "" : printProposals(title, kept),
    },
  };
}

function titleOf({ from, file, today }: PriceImportOrder): string[] {
  return [
    `Proposed by farebox prices import from the table of ${from} (${basename(file)}) on ${today}: to be reviewed.`,
    "A model takes the place of the whole model of the same id, so its earlier prices stand here again.",
    "",
  ];
}

/** Leaves out, with the reason, what would be a fault beside the files. */
function soundBeside(layers: readonly (readonly PriceText[])[], name: string, title: readonly string[], proposals: readonly Proposal[]) {
  const [shipped = [], own = []] = layers;
  const leftOut: LeftOut[] = [];
  let left = proposals;
  for (;;) {
    const text = printProposals(title, left);
    const built = buildCatalogue([shipped, [...own, { name, text }]]);
    const faults = built.ok ? [] : built.faults.filter(({ file }) => file === name);
    if (faults.length === 0) return { proposals: left, leftOut };
    const lines = text.split("\n");
    const faulty = new Map(faults.map((fault) => [modelAt(lines, fault.line), fault.message]));
    const remaining = left.filter(({ id, ownPlace }) => ownPlace !== null || !faulty.has(id));
    // A fault that no model of ours has ends it, rather than asking for ever.
    if (remaining.length === left.length) return { proposals: [], leftOut: left.map(({ id }) => ({ model: id, why: faults[0]?.message ?? "" })) };
    for (const { id } of left) if (faulty.has(id) && !remaining.some((each) => each.id === id)) leftOut.push({ model: id, why: faulty.get(id) ?? "" });
    left = remaining;
  }
}

/** The model whose lines hold this one. */
function modelAt(lines: readonly string[], line: number): string {
  const head = lines.slice(0, line).findLast((text) => /^ {2}[^ #]/.test(text)) ?? "";
  return head.trim().replace(/:$/, "").replace(/^(["'])(.*)\1$/, "$2");
}

function proposedOf({ id, kind, provider, ownPlace, added }: Proposal): PriceImport["proposed"][number] {
  const entries = added.map(({ price, before }) => ({
    from: price.from,
    changes: [...(price.per_request === undefined
      ? [
          ...changedClasses(price.official ?? {}, before?.official ?? {}),
          ...(price.tiers ?? []).flatMap((tier) => {
            const own = before?.tiers?.find((each) => each.from_prompt_tokens === tier.from_prompt_tokens);
            return changedClasses(tier.official, own?.official ?? {}).map((each) => ({ ...each, class: `${each.class} from ${tier.from_prompt_tokens} tokens` }));
          }),
          ...(before?.tiers ?? [])
            .filter((tier) => price.tiers?.every((each) => each.from_prompt_tokens !== tier.from_prompt_tokens) ?? true)
            .map((tier) => ({ class: `input from ${tier.from_prompt_tokens} tokens`, before: tier.official.input, after: null })),
        ]
      : [{ class: "request", before: before?.per_request?.official ?? null, after: price.per_request.official }]),
      ...changedFees(Object.fromEntries(Object.entries(price.fees ?? {}).map(([tool, { usd }]) => [tool, usd])), before?.fees),
    ],
  }));
  return { model: id, kind, provider, by_hand: ownPlace, entries };
}

export type WriteResult = { readonly ok: true; readonly path: string } | { readonly ok: false; readonly problem: string };

/** Writes a new file, making the folder where it is missing; one that is there already stays as it is. */
export async function writeNew(folder: string, name: string, text: string): Promise<WriteResult> {
  const path = join(folder, name);
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(path, text, { flag: "wx" });
    return { ok: true, path };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    if (code === "EEXIST") return { ok: false, problem: `${path} is there already and stays as it is; remove it, or give another --from-date or --into` };
    return { ok: false, problem: `${path} cannot be written (${code})` };
  }
}
