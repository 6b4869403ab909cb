import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { closest } from "../config/suggest.ts";
import { picoUsdMax } from "../core/money.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { basisOf, underCap } from "../proxy/output-limit.ts";
import { createPricer } from "../proxy/price.ts";
import { estimate, type Estimate, type EstimateTools, type EstimateParams } from "../reporting/estimate.ts";
import { readEstimateRequest } from "../reporting/estimate-request.ts";
import { readChatRequest } from "../wire/chat-request.ts";
import { chatCompletions } from "../wire/endpoints/chat-completions.ts";
import { wholeNumberArgument } from "./arguments.ts";
import { settingsFor, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, type ExitCode, type Io } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";

interface EstimateOptions {
  readonly model?: string;
  readonly file?: string;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly json?: true;
}

const tokensMax = 100_000_000;

/** `estimate`: what a request would cost, before it is sent. */
export function registerEstimate(program: Command, context: CliContext): void {
  const { io, adapters } = context;
  const tokenCount = wholeNumberArgument(0, tokensMax);
  const command = program
    .command("estimate")
    .description("price a chat request before it is sent; says what is exact, what is estimated and what is a bound")
    .option("--model <model>", "the model; takes the place of the one that the request names")
    .option("--file <file>", "the chat request as JSON; - reads stdin")
    .option("--input-tokens <n>", "the prompt's tokens, in the place of counting them", tokenCount)
    .option("--output-tokens <n>", "the answer's tokens, in the place of the most that it can have", tokenCount)
    .option("--json", "print JSON");
  addSettingFlags(command, ["pricing", "output_cap"]);
  example(
    command,
    "farebox estimate --file request.json --output-tokens 500",
    "farebox estimate --model gpt-4o --input-tokens 2000 --output-tokens 500",
  );
  command.action(
    context.run(async (options: EstimateOptions) => {
      const loaded = settingsFor(context, command, { uses: ["pricing", "output_cap"] });
      if (!loaded.ok) return fail(io, loaded.problems);
      const wish = await wishOf(options, () => adapters.readStdin());
      if (!wish.ok) return fail(io, wish.problem, wish.code);
      const loading = await adapters.loadCatalogue(loaded.settings.pricing.folder);
      if (!loading.ok) return fail(io, loading.faults);
      await using tokens = await adapters.createTokenCounter();
      const at = adapters.clock.now();
      const tools = {
        catalogue: loading.catalogue,
        tokens,
        holdsFor: holdsWith(loading.catalogue, tokens, at, loaded.settings.output.cap),
        at,
      };
      const result = await estimate(tools, wish.wish);
      if (!result.ok) return fail(io, problemOf(result.problem, wish.wish.model, loading.catalogue, at), 1);
      if (options.json) printJson(io, result.estimate);
      else printEstimate(io, result.estimate, wish.wish.given !== null);
      return 0;
    }),
  );
}

type WishResult =
  | { readonly ok: true; readonly wish: EstimateParams }
  | { readonly ok: false; readonly problem: string; readonly code: ExitCode };

async function wishOf(options: EstimateOptions, readStdin: () => Promise<Buffer>): Promise<WishResult> {
  const { model, file, inputTokens = null, outputTokens = null } = options;
  if (file === undefined) {
    if (model !== undefined) return { ok: true, wish: { model, given: null, inputTokens, outputTokens } };
    return { ok: false, problem: "estimate needs --model, or a --file with a request that names one", code: 2 };
  }
  const bytes = file === "-" ? await readStdin() : await attemptRead(file);
  if (typeof bytes === "string") return { ok: false, problem: `${file} cannot be read: ${bytes}`, code: 2 };
  const read = readEstimateRequest(bytes, model);
  if (!read.ok) return { ok: false, problem: `${file === "-" ? "stdin" : file} ${read.problem}`, code: 1 };
  return { ok: true, wish: { model: read.request.model, given: read, inputTokens, outputTokens } };
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EISDIR: "it is a folder",
  EACCES: "no permission",
};

/** The file's bytes, or why there are none. */
async function attemptRead(file: string): Promise<Buffer | string> {
  try {
    return await readFile(file);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    return reasons[code] ?? code;
  }
}

/** The proxy's own step, so that the hold is the one that it would place. */
function holdsWith(
  catalogue: Catalogue,
  tokens: TokenCounter,
  at: number,
  outputCap: number | null,
): EstimateTools["holdsFor"] {
  const pricer = createPricer({
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
    if (!pricing.ok || maximum === null) return { hold: null, counted: null, unboundedFields: [], basis: null };
    const asked = { quote: pricing.quote, body: given, written: null };
    const limited = outputCap === null ? undefined : underCap({ maximum, given: asked, price }, outputCap);
    const sending = limited?.ok === true ? limited.sending : asked;
    const { quote, body } = sending;
    const counted = (await pricer.tighten(quote, body, picoUsdMax))?.hold ?? null;
    return {
      basis: limited?.ok === false ? null : basisOf(sending, maximum),
      hold: quote.hold,
      counted: counted === null || counted >= (quote.hold ?? 0n) ? null : counted,
      unboundedFields: quote.unboundedFields,
    };
  };
}

function problemOf(problem: "unknown_model" | "no_price", model: string, catalogue: Catalogue, at: number): string {
  if (problem === "no_price")
    return `the model "${model}" has no price in force; farebox prices list shows which have one`;
  const near = closest(
    model,
    catalogue.list(at).map(({ id }) => id),
  );
  const hint = near === undefined ? "farebox prices list shows those that are" : `did you mean "${near}"?`;
  return `no price file names the model "${model}"; ${hint}`;
}

function printEstimate(io: Io, { items, ...sums }: Estimate, hasRequest: boolean): void {
  const right = (title: string) => ({ title, align: "right" as const });
  printTable(
    io,
    [
      { title: "item" },
      right("tokens"),
      right("USD per 1M"),
      right("cost"),
      right("list cost"),
      { title: "known" },
      { title: "because" },
    ],
    [
      ...items.map((item) => [
        item.class,
        item.tokens,
        item.usd_per_million,
        item.cost_usd,
        item.list_cost_usd,
        item.known,
        item.why ?? "",
      ]),
      ["total", null, null, sums.cost_usd, sums.list_cost_usd, sums.exact ? "exact" : knownOf(items), ""],
    ],
  );
  const counted =
    sums.counted_hold_usd === null ? "" : `, or ${sums.counted_hold_usd} where that does not fit its budget`;
  const { held_for: held } = sums;
  const why = held === null ? "" : `: for ${held.output_tokens ?? "any number of"} output tokens, by ${held.by}`;
  note(
    io,
    hasRequest
      ? `it would hold USD ${sums.hold_usd}${counted}${why}`
      : `a request of this model holds at most USD ${sums.hold_usd}`,
  );
  for (const line of sums.notes) note(io, line);
}

function knownOf(items: Estimate["items"]): string {
  return items.some(({ known }) => known === "bound") ? "bound" : "estimate";
}
