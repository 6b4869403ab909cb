/** Price of one model in the sandbox: decimal strings of USD per 1M tokens. */
export interface ModelPrice {
  readonly input: string;
  /** Price of cached input. Default: the price of input. */
  readonly cachedInput?: string;
  /** Price of images or audio in the prompt. Default: the price of input. */
  readonly partInput?: string;
  /** Prices of writing to the cache for five minutes, and for one hour. Default: the price of input. */
  readonly cacheWrite?: string;
  readonly cacheWriteForAnHour?: string;
  readonly output: string;
  /** Price of one web search, in USD. Default: free. */
  readonly search?: string;
  /** All prices of tokens are multiplied by `times` if the prompt has more than `above` tokens. */
  readonly longPrompt?: { readonly above: number; readonly times: number };
  /** Minimum charge of a call, in tokens and in USD. Default: the sandbox's general minimum. */
  readonly minimumTokens?: number;
  readonly minimumUsd?: string;
}

/**
 * Official prices (input, output) and the percentage of them that the price group charges. Prices come from the public
 * tables of August 2026. Percentages come from the gateway's group list: 50 for large general models, 75 for smaller
 * and premium ones, 100 for embeddings, and 25 for the fast model.
 */
const official: Readonly<Record<string, readonly [input: string, output: string, percent: number]>> = {
  "gpt-4o": ["2.50", "10.00", 50],
  "gpt-5": ["1.25", "10.00", 50],
  "gpt-5.2": ["1.75", "14.00", 50],
  "gpt-4o-mini": ["0.15", "0.60", 75],
  "gpt-4.1": ["2.00", "8.00", 75],
  "gpt-4.1-mini": ["0.40", "1.60", 75],
  "gpt-4.1-nano": ["0.10", "0.40", 75],
  "text-embedding-3-small": ["0.02", "0.00", 100],
  "text-embedding-3-large": ["0.13", "0.00", 100],
  "text-embedding-ada-002": ["0.10", "0.00", 100],
  "gemini-2.5-flash": ["0.30", "2.50", 25],
};

/**
 * Prices of models that /v1/messages serves. Reading from the cache costs the same as input, because the gateway of the
 * shipped prices charges it so.
 */
const claude: Readonly<Record<string, ModelPrice>> = {
  "claude-opus-4-6": written("3.75", "4.6875", "7.50", "18.75", "0.0075"),
  "claude-sonnet-4-6": written("2.25", "2.8125", "4.50", "11.25", "0.0075"),
  "claude-haiku-4-5": written("1.00", "1.25", "2.00", "5.00", "0.01"),
  "claude-opus-5-5": written("4.00", "5.00", "8.00", "20.00", "0.01"),
  "claude-sonnet-5-5": written("2.00", "2.50", "4.00", "10.00", "0.01"),
  "claude-haiku-5-5": {
    ...written("0.10", "0.125", "0.20", "0.50", "0.01"),
    longPrompt: { above: 100_000, times: 5 },
  },
};

function written(
  input: string,
  cacheWrite: string,
  cacheWriteForAnHour: string,
  output: string,
  search: string,
): ModelPrice {
  return { input, cacheWrite, cacheWriteForAnHour, output, search };
}

/** Models for images and audio. whisper is priced per million seconds, tts per million characters. */
const media: Readonly<Record<string, ModelPrice>> = {
  "gpt-image-1": { input: "5.00", partInput: "10.00", output: "40.00" },
  "gpt-4o-transcribe": { input: "2.50", partInput: "6.00", output: "10.00" },
  "gpt-4o-mini-transcribe": { input: "1.25", partInput: "3.00", output: "5.00" },
  "whisper-1": { input: "100.00", output: "0.00" },
  "tts-1": { input: "15.00", output: "0.00" },
  "tts-1-hd": { input: "30.00", output: "0.00" },
};

/** Price of a model that is not in the table. */
const unknownModel: ModelPrice = { input: "2.00", output: "8.00" };

/** Returns the sandbox's prices by model; "*" applies to any other model. */
export function sandboxPrices(): Record<string, ModelPrice> {
  const prices: Record<string, ModelPrice> = { "*": unknownModel };
  for (const [model, [input, output, percent]] of Object.entries(official)) {
    prices[model] = { input: percentOf(input, percent), output: percentOf(output, percent) };
  }
  return { ...prices, ...claude, ...media };
}

/** Returns a percentage of a price. The price must have two decimals, so four decimals state the result exactly. */
function percentOf(price: string, percent: number): string {
  const product = (BigInt(price.replace(".", "")) * BigInt(percent)).toString().padStart(5, "0");
  return `${product.slice(0, -4)}.${product.slice(-4)}`;
}
