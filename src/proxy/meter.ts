import { partTokens } from "../core/bounds.ts";
import { outcomeOfStatus, type Outcome } from "../core/settlement.ts";
import { usageIn, type Usage } from "../core/usage.ts";
import { noTokens, unchanged, type Permille } from "../core/tokens.ts";
import type { CatalogueModel, Encoding } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { TokenCount, TokenCounter } from "../ports/token-counter.ts";
import type { ModelRequest } from "../wire/model-request.ts";
import { countPromptText } from "./count-prompt.ts";
import type { Ending } from "./ending.ts";

export interface Metered {
  readonly model: CatalogueModel | undefined;
  /** The request's bytes as they were sent. */
  readonly body: Buffer;
  readonly request: ModelRequest;
  /** Output that the gateway was writing unread when Farebox ended the stream. */
  readonly underWayTokens: number;
}

export type Meter = (ending: Ending, of: Metered) => Promise<Outcome>;

/** Models that the catalogue does not know are counted with the most common tokenizer. */
const commonEncoding: Encoding = "o200k_base";
/** And their context is not known: that of the largest there are. Tokens. */
const commonContext = 10_000_000;

/** Pauses before a busy counter is asked again; nobody waits for a settlement. */
const retryMs = [50, 200, 1_000, 5_000, 20_000];

/**
 * The step that says how a request ended in terms of money: the gateway's own usage, else a count of what it wrote.
 * It runs after the client has its bytes.
 */
export function createMeter(parts: { readonly tokens: TokenCounter; readonly clock: Clock }): Meter {
  const counted = async (count: () => Promise<TokenCount>): Promise<number | undefined> => {
    for (const pause of [0, ...retryMs]) {
      if (pause > 0) await new Promise<void>((resolve) => parts.clock.after(pause, resolve));
      const result = await count();
      if (result.ok) return result.tokens;
    }
    return undefined;
  };

  const count = async (texts: readonly string[], { model, body, request }: Metered) => {
    const encoding = model?.encoding ?? commonEncoding;
    // Images and sounds have no text; what the catalogue cannot bound cannot be counted.
    const media = model === undefined ? 0 : partTokens(request.size, model);
    if (media === null) return undefined;
    const prompt = await counted(() => countPromptText(parts.tokens, request.prompt.text(body), encoding, model?.contextTokens ?? commonContext));
    let output: number | undefined = 0;
    for (const text of texts) {
      const tokens = await counted(() => parts.tokens.countText(text, encoding));
      output = tokens === undefined || output === undefined ? undefined : output + tokens;
    }
    return prompt === undefined || output === undefined ? undefined : { prompt: prompt + media, output };
  };

  return async (ending, of) => {
    const errorFactor: Permille = of.model?.errorFactor ?? unchanged;
    const unit = of.model?.unit ?? "token";
    switch (ending.kind) {
      case "notSent":
      case "unknown":
        return ending;
      case "status":
        return outcomeOfStatus(ending.status, of.model?.billsServerErrors ?? false);
      case "whole": {
        const usage = usageIn(unit, ending.usage, of.request.classes.prompt);
        if (usage !== undefined) return reported(usage);
        const { characters } = of.request;
        if (unit === "character" && characters !== undefined) {
          return { kind: "counted", tokens: { ...noTokens, input: characters }, errorFactor: unchanged, hiddenTokens: 0 };
        }
        if (isUncountable(of)) return { kind: "unknown", reason: "no_usage" };
        // Its price is of the request: nothing need be counted for it, nor can it.
        if (of.request.isUnseen === true) return { kind: "counted", tokens: noTokens, errorFactor: unchanged, hiddenTokens: 0 };
        const tokens = await count(ending.texts, of);
        if (tokens === undefined) return { kind: "unknown", reason: "not_counted" };
        const classes = { ...noTokens, input: tokens.prompt, output: tokens.output };
        return { kind: "counted", tokens: classes, errorFactor, hiddenTokens: hiddenTokens(of, ending.ranMs) };
      }
      case "cut": {
        const usage = usageIn(unit, ending.usage, of.request.classes.prompt);
        if (usage !== undefined) return reported(usage);
        if (isUncountable(of)) return { kind: "unknown", reason: ending.reason };
        const tokens = await count(ending.texts, of);
        if (tokens === undefined) return { kind: "unknown", reason: "not_counted" };
        return {
          kind: "cut",
          promptTokens: tokens.prompt,
          deliveredTokens: tokens.output,
          underWayTokens: of.underWayTokens,
          errorFactor,
          hiddenTokens: hiddenTokens(of, ending.ranMs),
          reason: ending.reason,
        };
      }
    }
  };
}

function reported({ tokens, clamped, doubts }: Usage): Outcome {
  return { kind: "reported", tokens, clamped, ...(doubts !== undefined && { doubts }) };
}

/** Whether no text tells what it cost; a price of requests needs none. */
function isUncountable({ model, request }: Metered): boolean {
  const { price, unit } = model ?? { price: null, unit: "token" };
  return (request.isUnseen === true || unit !== "token") && price?.version.perRequest == null;
}

/** Output that a reasoning model may have produced unseen while it ran, by its stated speed. */
function hiddenTokens({ model, request }: Metered, ranMs: number): number {
  if (model === undefined || !model.reasons) return 0;
  return Math.ceil((model.tokensPerSecond * request.size.choices * ranMs) / 1000);
}
