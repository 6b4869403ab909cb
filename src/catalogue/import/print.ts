import { Document, isMap, isScalar, isSeq, Scalar, visit, type Node, type Pair, type YAMLMap } from "yaml";
import type { Proposal } from "./propose.ts";

/** Fields whose value is written on one line. */
const oneLine = new Set([
  "official",
  "gateway",
  "per_request",
  "aliases",
  "served_as",
  "image_tokens",
  "max_output_field",
]);
/** Fields whose parts are each written on one line. */
const oneLineEach = new Set(["fees", "tiers"]);

/** Returns the text of a price file with these models. */
export function printProposals(title: readonly string[], proposals: readonly Proposal[]): string {
  const lines = title.map((line) => `# ${line}`.trimEnd());
  if (proposals.length === 0) return `${lines.join("\n")}\n`;
  const models = Object.fromEntries(proposals.map(({ id, statement }) => [id, statement]));
  const document = new Document({ models }, { aliasDuplicateObjects: false });
  visit(document, {
    Pair(_, { key, value }) {
      const name = isScalar(key) ? String(key.value) : "";
      // Text that is not a name is quoted, so that it is never read as another value.
      if (name === "source" && isScalar(value)) value.type = Scalar.QUOTE_DOUBLE;
      if (oneLine.has(name)) setFlow(value);
      if (oneLineEach.has(name)) {
        if (isSeq(value)) value.items.forEach(setFlow);
        if (isMap(value)) for (const each of value.items) setFlow(each.value);
      }
    },
  });
  const nodes = document.get("models") as YAMLMap;
  proposals.forEach((proposal, index) => annotate(nodes.items[index], proposal, index === 0));
  return `${lines.join("\n")}\n${document.toString({ lineWidth: 0 })}`;
}

function setFlow(node: unknown): void {
  if (isMap(node) || isSeq(node)) node.flow = true;
}

/** Adds the comments of a model, and an empty line before it. */
function annotate(pair: Pair | undefined, { kind, remarks }: Proposal, isFirst: boolean): void {
  const key = pair?.key as Node | undefined;
  if (key === undefined) return;
  if (!isFirst) key.spaceBefore = true;
  if (kind === "new") key.commentBefore = " New model: check its group and its sizes.";
  visit(pair?.value as Node, {
    Map(_, map) {
      const [first] = map.items;
      const lines = remarks.get(String(map.get("from"))) ?? [];
      if (first !== undefined && isScalar(first.key) && lines.length > 0)
        first.key.commentBefore = lines.map((line) => ` ${line}`).join("\n");
    },
  });
}
