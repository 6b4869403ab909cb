import { itemize, type CostItem } from "../core/cost.ts";
import { formatRate, formatUsd, sum } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import { noTokens, type TokenClass, type TokenCounts, type Unit } from "../core/usage.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";

type ExampleModel = Pick<CatalogueModel, "unit" | "imagesOnly" | "contextTokens" | "outputTokensMax">;

export type PriceExample = ReturnType<typeof exampleOf>;

/** Sizes of the example. A model with smaller limits has an example of its largest request. */
const sizes = { prompt: 100_000, output: 2000 } as const;

/** Class that counts a prompt, by the model's unit. */
const promptClass = { token: "input", second: "audio_input", character: "input" } as const satisfies Record<
  Unit,
  TokenClass
>;

/**
 * Returns the costs of example requests, line by line: a long prompt, most of it from the cache, with a short answer. A
 * price with a minimum has a second example of a single token. The example of a flat price is one request.
 */
export function priceExamples(version: PriceVersion, model: ExampleModel): PriceExample[] {
  if (version.perRequest !== null) return [exampleOf(version, "one request", noTokens)];
  const { unit } = model;
  const { minimum, tiers } = version;
  const [prompt, tokens] = promptOf(unit, Math.min(sizes.prompt, model.contextTokens));
  const outputClass = model.imagesOnly ? "image_output" : "output";
  const isFree = tiers[0].charged[outputClass] === 0n && tiers[0].list[outputClass] === 0n;
  const output = isFree ? 0 : Math.min(sizes.output, model.outputTokensMax);
  const answer = output === 0 ? "" : `, ${output} output ${unit}s`;
  const long = exampleOf(version, prompt + answer, { ...tokens, [outputClass]: output });
  if (minimum.tokens === 0 && minimum.usd === 0n) return [long];
  return [long, exampleOf(version, `one ${unit}`, { ...noTokens, [promptClass[unit]]: 1 })];
}

/** Returns a prompt in words and in tokens. Eight tenths of its tokens are read from the cache, one tenth is written. */
function promptOf(unit: Unit, size: number): [string, TokenCounts] {
  if (unit !== "token") return [`${size} ${unit}s`, { ...noTokens, [promptClass[unit]]: size }];
  const [cached_input, cache_write] = [Math.floor((size * 8) / 10), Math.floor(size / 10)];
  return [
    `${size} prompt tokens (${cached_input} read from the cache, ${cache_write} written to it)`,
    { ...noTokens, input: size - cached_input - cache_write, cached_input, cache_write },
  ];
}

function exampleOf(version: PriceVersion, request: string, tokens: TokenCounts) {
  const items = itemize(version, tokens);
  return {
    request,
    items: items.map(itemJson),
    cost_usd: formatUsd(sum(items.map((item) => item.cost))),
    list_cost_usd: formatUsd(sum(items.map((item) => item.listCost))),
  };
}

function itemJson(item: CostItem) {
  return {
    class: item.class,
    tokens: item.tokens,
    from_prompt_tokens: item.tierFrom,
    usd_per_million: item.rate === null ? null : formatRate(item.rate),
    cost_usd: formatUsd(item.cost),
    official_usd_per_million: item.listRate === null ? null : formatRate(item.listRate),
    list_cost_usd: formatUsd(item.listCost),
  };
}
