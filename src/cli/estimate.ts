import { readFile } from "node:fs/promises";
import { BodyBytes } from "../ports/exchange.ts";
import { nearest } from "../core/fault.ts";
import { picoUsdMax } from "../core/money.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { basisOf, underCap } from "../request/output-cap.ts";
import { Pricer } from "../request/price.ts";
import { estimate, readEstimateRequest, type EstimateParams, type EstimateTools } from "../reporting/estimate.ts";
import type { EstimateJson } from "../reporting/shapes/commands.ts";
import { chatCompletions, readChatRequest } from "../wire/endpoints/chat-completions.ts";
import { loadPrices } from "./price-files.ts";
import { wholeNumberArgument } from "./arguments.ts";
import { command, json, type Given } from "./command.ts";
import { note, commandFailure, type Io, type CommandFailure } from "./io.ts";
import { printRows, right } from "./table.ts";
import { priceSettings } from "./tools.ts";

const tokenCount = { value: "<n>", parse: wholeNumberArgument(0, 100_000_000) } as const;

const options = {
  model: { value: "<model>", help: "model; replaces the model in the request" },
  file: { value: "<file>", help: "chat request as JSON; - reads stdin" },
  inputTokens: { ...tokenCount, help: "number of prompt tokens (default: counted)" },
  cachedTokens: { ...tokenCount, help: "number of --input-tokens that are read from the cache" },
  cacheWriteTokens: { ...tokenCount, help: "number of --input-tokens that are written to the cache" },
  outputTokens: { ...tokenCount, help: "number of output tokens (default: the largest possible number)" },
  json,
} as const;

export const commands = [
  command("estimate", {
    options,
    settings: [...priceSettings, "output_cap"],
    examples: [
      "farebox estimate --file request.json --output-tokens 500",
      "farebox estimate --model gpt-4o --input-tokens 2000 --output-tokens 500",
      "farebox estimate --model gpt-4o --input-tokens 2000 --cached-tokens 1500 --output-tokens 500",
    ],
    check: cacheProblem,
    run: async ({ prices, readStdin, clock, settings: { pricing, output } }, given) => {
      const read = await readParams(given, readStdin);
      if (!read.ok) return read;
      const { params } = read;
      const loading = await loadPrices(prices, pricing);
      if (!loading.ok) return commandFailure(loading.faults);
      const { catalogue } = loading;
      const { createTokenCounter } = await import("../platform/tokens/token-counter.ts");
      await using tokens = createTokenCounter();
      const at = clock.now();
      const holdsFor = holdsWith(catalogue, tokens, at, output.cap);
      const result = await estimate({ catalogue, tokens, holdsFor, at }, params);
      if (!result.ok) return commandFailure(problemOf(result.problem, params.model, catalogue, at), 1);
      return { estimated: result.estimate, hasRequest: params.given !== null };
    },
    json: ({ estimated }) => estimated,
    print: (io, { estimated, hasRequest }) => printEstimate(io, estimated, hasRequest),
  }),
];

/** Returns a failure if the stated tokens of the cache are not part of the stated prompt. */
function cacheProblem({ inputTokens, cachedTokens, cacheWriteTokens }: Given<typeof options>): CommandFailure | null {
  const parts = { "--cached-tokens": cachedTokens, "--cache-write-tokens": cacheWriteTokens };
  const stated = Object.entries(parts).flatMap(([flag, tokens]) => (tokens === undefined ? [] : [{ flag, tokens }]));
  if (stated.length === 0) return null;
  const flags = stated.map(({ flag }) => flag).join(" and ");
  if (inputTokens === undefined)
    return commandFailure(`${flags} ${stated.length === 1 ? "is" : "are"} part of --input-tokens; state it too`);
  const sum = stated.reduce((total, { tokens }) => total + tokens, 0);
  return sum <= inputTokens
    ? null
    : commandFailure(
        `${flags} ${stated.length === 1 ? "is" : "are together"} ${sum}, more than --input-tokens, which is ${inputTokens} and includes them`,
      );
}

async function readParams(
  { model, file, ...given }: Given<typeof options>,
  readStdin: () => Promise<Buffer>,
): Promise<{ readonly ok: true; readonly params: EstimateParams } | CommandFailure> {
  const { inputTokens = null, outputTokens = null, cachedTokens = 0, cacheWriteTokens = 0 } = given;
  const stated = { inputTokens, outputTokens, cachedTokens, cacheWriteTokens };
  if (file === undefined) {
    if (model !== undefined) return { ok: true, params: { model, given: null, ...stated } };
    return commandFailure("estimate needs --model, or a --file with a request that names a model");
  }
  const bytes = file === "-" ? await readStdin() : await attemptRead(file);
  if (typeof bytes === "string") return commandFailure(`${file} cannot be read: ${bytes}`);
  const read = readEstimateRequest(bytes, model);
  if (!read.ok) return commandFailure(`${file === "-" ? "stdin" : file} ${read.problem}`, 1);
  return { ok: true, params: { model: read.request.model, given: read, ...stated } };
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EISDIR: "it is a folder",
  EACCES: "no permission",
};

/** Returns the file's bytes, or the reason why it cannot be read. */
async function attemptRead(file: string): Promise<Buffer | string> {
  try {
    return await readFile(file);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    return reasons[code] ?? code;
  }
}

/** Returns a function that computes holds. It uses the proxy's pricer, so the holds equal those of the proxy. */
function holdsWith(
  catalogue: Catalogue,
  tokens: TokenCounter,
  at: number,
  outputCap: number | null,
): EstimateTools["holdsFor"] {
  const pricer = new Pricer({
    catalogue: () => catalogue,
    tokens,
    unpriced: "record",
    sliceTokens: Infinity,
    toolCalls: 0,
    fitTokensMin: null,
  });
  const { maximum } = chatCompletions;
  const price = (body: Buffer) => {
    const read = readChatRequest(body);
    return read.ok ? pricer.quote(read.request, at) : read;
  };
  return async (request, given) => {
    const pricing = pricer.quote(request, at);
    if (!pricing.ok || maximum === undefined)
      return {
        hold: null,
        countedHold: null,
        heldPrompt: null,
        countedPrompt: null,
        unboundedFields: [],
        basis: null,
      };
    const asked = { quote: pricing.quote, body: new BodyBytes([given]), injected: null };
    const limited = outputCap === null ? undefined : underCap({ maximum, given: asked, price }, outputCap);
    const capped = limited?.ok === true ? limited.request : asked;
    const { quote, body } = capped;
    const tighter = await pricer.tighten(quote, body, picoUsdMax);
    const counted = tighter?.hold ?? null;
    const isLess = counted !== null && counted < (quote.hold ?? 0n);
    return {
      basis: limited?.ok === false ? null : basisOf(capped, maximum),
      hold: quote.hold,
      countedHold: isLess ? counted : null,
      heldPrompt: quote.promptTokens,
      countedPrompt: isLess ? (tighter?.promptTokens ?? null) : null,
      unboundedFields: quote.unboundedFields,
    };
  };
}

function problemOf(problem: "unknown_model" | "no_price", model: string, catalogue: Catalogue, at: number): string {
  if (problem === "no_price")
    return `the model "${model}" has no price in force; farebox prices list shows the models that have a price`;
  const [near] = nearest(
    model,
    catalogue.list(at).map(({ id }) => id),
  );
  const hint = near === undefined ? "farebox prices list shows the known models" : `did you mean "${near}"?`;
  return `no price file names the model "${model}"; ${hint}`;
}

function printEstimate(io: Io, { items, ...sums }: EstimateJson, hasRequest: boolean): void {
  const { cost_usd, list_cost_usd } = sums;
  const known = sums.exact ? "exact" : knownOf(items);
  const total = { class: "total", tokens: null, usd_per_million: null, cost_usd, list_cost_usd, known, why: null };
  printRows(io, [...items, total], {
    item: (item) => item.class,
    tokens: right(({ tokens }) => tokens),
    "USD per 1M": right(({ usd_per_million: rate }) => rate),
    cost: right((item) => item.cost_usd),
    "list cost": right((item) => item.list_cost_usd),
    known: (item) => item.known,
    because: ({ why }) => why ?? "",
  });
  const counted = sums.counted_hold_usd === null ? "" : `, or USD ${sums.counted_hold_usd} if the budget has less room`;
  const { held_for: held } = sums;
  const why =
    held === null
      ? ""
      : `; the hold covers ${held.output_tokens ?? "any number of"} output tokens, decided by ${held.by}`;
  note(
    io,
    hasRequest
      ? `the proxy would hold USD ${sums.hold_usd}${counted}${why}`
      : `the proxy holds at most USD ${sums.hold_usd} for a request to this model`,
  );
  if (sums.held_prompt !== null && hasRequest) note(io, promptLine(sums.held_prompt, sums.counted_prompt));
  for (const line of sums.notes) note(io, line);
}

/** States how many prompt tokens the holds cover, and what decided these numbers. */
function promptLine(held: NonNullable<EstimateJson["held_prompt"]>, counted: EstimateJson["counted_prompt"]): string {
  const by = { bytes: "by its bytes", context: "the model's whole context" }[held.by];
  const first = `the hold covers ${held.tokens} prompt tokens, ${by}`;
  if (counted === null) return first;
  const how = { tokenizer: "as counted", words: "by its words, because the tokenizer is not published" }[counted.by];
  return `${first}; if the budget has less room, ${counted.tokens} ${how}`;
}

function knownOf(items: EstimateJson["items"]): string {
  return items.some(({ known }) => known === "bound") ? "bound" : "estimate";
}
