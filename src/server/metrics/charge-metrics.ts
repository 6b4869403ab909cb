import { sources } from "../../core/charge.ts";
import { doubts, tokenClasses, type Doubt, type TokenClass } from "../../core/usage.ts";
import type { ChargedKey, Events } from "../../ports/events.ts";
import { amounts, counts, type Money } from "./counters.ts";
import type { Family } from "./family.ts";
import { BoundedLabel, other, SeriesCache } from "./labels.ts";
import { groupsMax, modelsMax, startedMax } from "./limits.ts";
import type { KeyNames } from "./key-names.ts";

/** The classes that every chat model reports; the others' series start with their first token. */
const startedClasses: readonly TokenClass[] = ["input", "cached_input", "output", "reasoning"];

type HandledEvents = Pick<Events, "admitted" | "posted">;

/** Counts charges, by model and by key. */
export function chargeMetrics(names: KeyNames): {
  readonly events: HandledEvents;
  readonly families: readonly Family[];
} {
  const byModel = ["model", "group", "source"];
  const byKey = ["key", "team"];
  const cost = amounts({ name: "farebox_cost_usd_total", help: "Cost at the gateway, in USD.", labels: byModel });
  const list = amounts({
    name: "farebox_list_cost_usd_total",
    help: "The same tokens at the official list price, in USD.",
    labels: byModel,
  });
  const tokens = counts({
    name: "farebox_tokens_total",
    help: "Tokens charged for, by disjoint class.",
    labels: ["model", "class", "source"],
  });
  const keyRequests = counts({ name: "farebox_key_requests_total", help: "Charges posted, by key.", labels: byKey });
  const keyCost = amounts({
    name: "farebox_key_cost_usd_total",
    help: "Cost at the gateway, in USD, by key.",
    labels: byKey,
  });
  const keyTokens = counts({
    name: "farebox_key_tokens_total",
    help: "Tokens charged for, by key and disjoint class.",
    labels: [...byKey, "class"],
  });
  const retries = counts({
    name: "farebox_client_retries_total",
    help: "Requests that a client's SDK sent again, by model.",
    labels: ["model"],
  });
  const overage = amounts({
    name: "farebox_overage_usd_total",
    help: "Posted amounts above their holds, in USD.",
    labels: [],
  });
  const inDoubt = amounts({
    name: "farebox_cost_in_doubt_usd_total",
    help: "Cost of charges that the gateway may bill differently, in USD, under each of their doubts.",
    labels: ["reason"],
  });

  const models = new BoundedLabel(modelsMax);
  const groups = new BoundedLabel(groupsMax);
  const modelSeries = new SeriesCache((model = "", group = "", source = "") => ({
    cost: cost.of(model, group, source),
    list: list.of(model, group, source),
    tokens: new SeriesCache((name = "") => tokens.of(model, name, source)),
  }));
  const keySeries = new SeriesCache((key = "", team = "") => ({
    requests: keyRequests.of(key, team),
    cost: keyCost.of(key, team),
    tokens: new SeriesCache((name = "") => keyTokens.of(key, team, name)),
  }));
  const overages = overage.of();
  const inDoubtOf = Object.fromEntries(doubts.map((doubt) => [doubt, inDoubt.of(doubt)])) as Record<Doubt, Money>;
  const modelLabel = (model: string | null) => (model === null ? other : models.of(model));
  const seriesOfModel = (model: string | null, group: string | null, source: string) =>
    modelSeries.of(modelLabel(model), group === null ? "" : groups.of(group), source);
  const seriesOfKey = (key: ChargedKey | null) => keySeries.of(...names.labelsOf(key));

  const started = new Set<string>();
  const start: HandledEvents["admitted"] = ({ key, model, group }) => {
    // Asking for a series is enough: it starts at 0.
    const ofKey = seriesOfKey(key);
    retries.of(modelLabel(model));
    for (const name of startedClasses) ofKey.tokens.of(name);
    for (const source of sources) {
      const ofModel = seriesOfModel(model, group, source);
      for (const name of startedClasses) ofModel.tokens.of(name);
    }
  };
  return {
    families: [cost, list, tokens, keyRequests, keyCost, keyTokens, retries, overage, inDoubt],
    events: {
      admitted(admission) {
        const { key, model, retry } = admission;
        if (retry > 0) retries.of(modelLabel(model)).add(1);
        const seen = `${key?.name ?? ""}\n${key?.team ?? ""}\n${model ?? ""}`;
        if (started.has(seen) || started.size > startedMax) return;
        started.add(seen);
        start(admission);
      },
      posted(event) {
        const ofModel = seriesOfModel(event.model, event.group, event.source);
        const ofKey = seriesOfKey(event.key);
        ofKey.requests.add(1);
        if (event.cost !== null) {
          ofModel.cost.add(event.cost);
          ofKey.cost.add(event.cost);
          for (const doubt of event.doubts) inDoubtOf[doubt].add(event.cost);
        }
        if (event.listCost !== null) ofModel.list.add(event.listCost);
        overages.add(event.overage);
        for (const name of tokenClasses) {
          const count = event.tokens[name];
          if (count === 0) continue;
          ofModel.tokens.of(name).add(count);
          ofKey.tokens.of(name).add(count);
        }
      },
    },
  };
}
