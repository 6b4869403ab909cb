import { parser } from "@prometheus-io/lezer-promql";

/** A series that a query names, with its label matchers. */
interface Selector {
  readonly metric: string;
  /** Labels that are matched, and labels by which an enclosing aggregation groups. */
  readonly labels: readonly string[];
}

/** Returns the selectors of a query, parsed with Prometheus' grammar; throws if it is not PromQL. */
export function selectorsOf(query: string): Selector[] {
  const tree = parser.parse(query);
  const found: { metric: string; labels: string[]; from: number; to: number }[] = [];
  const groupings: { labels: string[]; from: number; to: number }[] = [];
  const text = ({ from, to }: { from: number; to: number }) => query.slice(from, to);
  tree.iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`not PromQL at ${node.from}: ${query}`);
      const labelNames = (child: string) =>
        node.node.getChild(child)?.cursor().node.getChildren("LabelName").map(text) ?? [];
      if (node.name === "VectorSelector") {
        const metric = node.node.getChild("Identifier");
        if (metric === null) throw new Error(`a selector without a metric's name: ${query}`);
        const matchers = node.node.getChild("LabelMatchers")?.getChildren("UnquotedLabelMatcher") ?? [];
        const labels = matchers.flatMap((matcher) => matcher.getChildren("LabelName").map(text));
        found.push({ metric: text(metric), labels, from: node.from, to: node.to });
      }
      if (node.name === "AggregateModifier") {
        const around = node.node.parent ?? node.node;
        groupings.push({ labels: labelNames("GroupingLabels"), from: around.from, to: around.to });
      }
    },
  });
  return found.map(({ metric, labels, from, to }) => {
    const around = groupings.filter((grouping) => grouping.from <= from && to <= grouping.to);
    return { metric, labels: [...new Set([...labels, ...around.flatMap((grouping) => grouping.labels)])] };
  });
}

/** Returns the metrics of an exposition with the labels of their series. */
export function exposedLabels(exposition: string): Map<string, Set<string>> {
  const exposed = new Map<string, Set<string>>();
  for (const [, name = "", labels = ""] of exposition.matchAll(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+/gm)) {
    const known = exposed.get(name) ?? new Set();
    exposed.set(name, known);
    for (const [, label = ""] of labels.matchAll(/([a-zA-Z_]\w*)="(?:[^"\\]|\\.)*"/g)) known.add(label);
  }
  return exposed;
}
