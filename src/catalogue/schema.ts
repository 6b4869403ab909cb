import { z } from "zod";
import { unknownFields } from "../core/fault.ts";
import { parseRate, parseUsd } from "../core/money.ts";
import { toolCallType } from "../core/price.ts";
import { factorNames, factorTerms, type FactorTerm } from "../core/rate-variants.ts";
import { routeKinds, routeMethods } from "../core/task-routes.ts";
import { streamKinds } from "../core/slices.ts";
import { tokenClasses, units, type TokenClass } from "../core/usage.ts";

/**
 * Schema of a price file. Every `error` completes the sentence "write …", because a fault tells the user what to write.
 * The schema does not convert values.
 */

/**
 * Highest accepted rate. The product of this rate and the largest context fits into 64 bits of pico-USD with a wide
 * margin.
 */
const rateMaxUsdPerMillion = "10000";
const tokensMax = 100_000_000;

const plainDecimal = /^\d{1,12}(\.\d{1,12})?$/;

/**
 * Returns a schema for decimal strings. For a decimal that `isExact` rejects, the schema reports the error `inexact`.
 */
function decimal(
  what: string,
  inexact: string,
  isExact: (text: string) => boolean,
  /** Returns the error for a text that is no decimal. */
  malformed: (text: unknown) => string = () => what,
) {
  return z
    .string({ error: what })
    .regex(plainDecimal, { error: ({ input }) => malformed(input), abort: true })
    .refine(isExact, { error: inexact, abort: true });
}

const rateWords = 'a decimal string in quotes, USD per 1M tokens, such as "2.50"';

const rate = decimal(
  rateWords,
  "it with at most six decimals: a finer rate cannot be represented exactly",
  (text) => parseRate(text) !== undefined,
  (text) =>
    text === "official" || text === "input" ? "the word next to `gateway`, not in it, or a rate in quotes" : rateWords,
).refine((text) => (parseRate(text) ?? 0n) <= (parseRate(rateMaxUsdPerMillion) ?? 0n), {
  error: `a rate of at most ${rateMaxUsdPerMillion} USD per 1M tokens`,
});

const usd = decimal(
  'a decimal string in quotes, USD, such as "0.005"',
  "it with at most twelve decimals and below USD 9.2 million: other amounts cannot be represented exactly",
  (text) => parseUsd(text) !== undefined,
);

const fraction = decimal(
  'a decimal string in quotes, the share of the official price, such as "0.75"',
  "it with at most six decimals: a finer fraction cannot be represented exactly",
  (text) => parseRate(text) !== undefined,
).refine((text) => (parseRate(text) ?? 0n) <= 100_000_000n, { error: 'a fraction of at most "100"' });

const rateFactorWords =
  'a decimal string in quotes, a factor of rates such as "1.1", or a block of factors by class with input and output';
const rateFactor = decimal(rateFactorWords, "it with at most six decimals", (text) => parseRate(text) !== undefined)
  .refine((text) => (parseRate(text) ?? 0n) > 0n, { error: "a factor above 0" })
  .refine((text) => (parseRate(text) ?? 0n) <= 100_000_000n, { error: 'a factor of at most "100"' });

const factor = decimal(
  'a decimal string in quotes, a factor such as "1.25"',
  "it with at most three decimals",
  (text) => (parseRate(text) ?? 1n) % 1000n === 0n,
).refine((text) => (parseRate(text) ?? 0n) >= 1_000_000n && (parseRate(text) ?? 0n) <= 100_000_000n, {
  error: 'a factor from "1" to "100": it widens a bound, it never narrows one',
});

function whole(what: string, min: number) {
  return z.int({ error: what }).min(min, { error: what }).max(tokensMax, { error: what });
}

const tokens = whole("a whole number of tokens without quotes, such as 128000", 1);
const partTokens = whole("a whole number of tokens for one part, or null if there is no bound", 1).nullable();
const day = z.iso.date({ error: "a UTC day that exists, such as 2026-08-21" });
const flag = z.boolean({ error: "true or false" });
const words = z.string({ error: "a few words in quotes" }).min(1, { error: "a few words in quotes" });

/**
 * Returns a schema for an object that accepts only these fields and reports each unknown field. `advice` says what to
 * write instead of a field that belongs elsewhere.
 */
function block<Shape extends z.core.$ZodLooseShape>(shape: Shape, advice: Readonly<Record<string, string>> = {}) {
  const known = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? unknownFields(issue.keys, known, advice)
        : `a block of the fields ${known.join(", ")}`,
  });
}

function named<Value extends z.ZodType>(key: RegExp, what: string, value: Value) {
  return z.record(z.string().regex(key, { error: what }), value, { error: "a block with one entry for each name" });
}

const optionalRates = optionalOf(rate);
const officialRates = block({ ...optionalRates, input: rate, output: rate });
const gatewayRates = block(
  optionalRates,
  adviceFor(["fraction", "minimum", "fees"], "write it next to this block of rates, or in a group"),
);

function optionalOf<Value extends z.ZodType>(value: Value) {
  return Object.fromEntries(tokenClasses.map((name) => [name, value.optional()])) as Record<
    TokenClass,
    z.ZodOptional<Value>
  >;
}

const rateFactors = z.union([rateFactor, block({ ...optionalOf(rateFactor), input: rateFactor, output: rateFactor })], {
  error: rateFactorWords,
});

const factorMeanings = {
  speed: "Factors of the rates by the `speed` of the request or the answer.",
  inference_geo: "Factors of the rates by the region (`inference_geo`) of the request or the answer.",
} as const satisfies Record<FactorTerm, string>;

const factorsOfTerm = (term: FactorTerm) =>
  block(
    Object.fromEntries(
      factorNames[term].map((value) => [
        value,
        rateFactors
          .optional()
          .describe("A factor of all token rates, or factors by class. A missing class has the factor of its parent."),
      ]),
    ),
  )
    .optional()
    .describe(factorMeanings[term]);

/** Factors of rates by the values of other terms than the service tier. */
const factors = block(
  Object.fromEntries(factorTerms.map((term) => [term, factorsOfTerm(term)])) as Record<
    FactorTerm,
    ReturnType<typeof factorsOfTerm>
  >,
)
  .optional()
  .describe("Factors by which a fast answer or one from a region costs more, in every service tier. Fees have none.");

const tier = block({
  from_prompt_tokens: tokens.describe("Smallest prompt of this tier; 200001 for a price above 200k tokens."),
  official: officialRates.describe("The provider's rates in this tier."),
  gateway: gatewayRates.optional().describe("The gateway's rates in this tier."),
});

const tierList = z
  .array(tier, { error: "a list of tiers" })
  .optional()
  .describe("Rates by the size of the prompt, in ascending order.");

const serviceTier = block({
  official: officialRates.describe("The provider's rates in this service tier."),
  gateway: gatewayRates.optional().describe("The gateway's rates in this service tier."),
  tiers: tierList,
});

const toolFee = block({
  usd: usd.describe("The provider's price of one call, in USD."),
  gateway: usd
    .optional()
    .describe("The gateway's price of one call, in USD; it takes precedence over group x official."),
  input_tokens: whole(
    "the largest number of tokens that one call adds to the prompt, a whole number without quotes",
    0,
  ).describe("Largest number of tokens that one call adds to the prompt."),
});

const flatPrice = block({
  official: usd.describe("The provider's price of one request."),
  gateway: usd.optional().describe("The gateway's price of one request; it takes precedence over group x official."),
});

const minimum = block({
  tokens: whole("a whole number of tokens without quotes", 0)
    .optional()
    .describe(
      "Smallest number of prompt and output tokens that is charged; missing tokens are charged at the output rate.",
    ),
  usd: usd.optional().describe("Smallest amount that is charged, in USD."),
});

const tierMode = z.enum(["whole_request", "marginal"], { error: "whole_request or marginal" }).optional();

const price = block({
  from: day.describe("First UTC day of validity."),
  until: day.optional().describe("First UTC day after the validity; by default the next entry's `from`."),
  source: words.describe("Source of the price, and the day on which it was read."),
  official: officialRates
    .optional()
    .describe("The provider's official rates in USD per 1M tokens, as decimal strings."),
  gateway: gatewayRates
    .optional()
    .describe("Absolute rates of the gateway; they take precedence over group x official."),
  per_request: flatPrice
    .optional()
    .describe("Flat price of one request in USD, instead of token rates (image models)."),
  minimum: minimum.optional().describe("Minimum charge of one request."),
  tier_mode: tierMode.describe(
    "whole_request (default): the whole request has the rates of the tier that the prompt reaches. marginal: each part of the prompt has the rates of its own tier; token number from_prompt_tokens is the first of a tier.",
  ),
  tiers: tierList,
  service_tiers: block({
    priority: serviceTier.optional().describe("Rates of the priority tier: `official`, `gateway` and `tiers`."),
    flex: serviceTier.optional().describe("Rates of the flex tier: `official`, `gateway` and `tiers`."),
    batch: serviceTier.optional().describe("Rates of the batch tier: `official`, `gateway` and `tiers`."),
  })
    .optional()
    .describe("Rates of other service tiers. The rates next to this field apply to the standard tier."),
  factors,
  fees: named(toolCallType, "the type of the item in an answer, such as web_search_call", toolFee)
    .optional()
    .describe("The price of one call of a hosted tool, in addition to its tokens."),
});

const cacheTermWords = 'official, input, or a decimal string in quotes, USD per 1M tokens, such as "0.60"';

/** Rule for the charged rate of a class of cached tokens: a word, or the rate itself. */
function cacheTerm(noun: string, otherwise: string) {
  return z
    .string({ error: cacheTermWords })
    .refine((text) => text === "official" || text === "input" || rate.safeParse(text).success, {
      error: cacheTermWords,
    })
    .optional()
    .describe(
      `Rate of ${noun}: official (the share of their official rate), input (the charged rate of input), or USD per 1M tokens; by default ${otherwise}.`,
    );
}

/** What the gateway charges for all models that the terms cover. */
const terms = {
  fraction: fraction.optional().describe("Share of the official price that the gateway charges."),
  minimum: minimum.optional().describe("Minimum charge of one request."),
  cached_input: cacheTerm("tokens read from the cache", "input"),
  cache_write: cacheTerm("tokens written to the cache", "official"),
  cache_write_1h: cacheTerm("tokens written to the cache for one hour", "official"),
  fees: named(toolCallType, "the type of the item in an answer, such as web_search_call", toolFee.partial())
    .optional()
    .describe(
      "The price of one call of a hosted tool. With `usd` and `input_tokens`, all models have the fee; otherwise only the stated parts of existing fees change.",
    ),
};

/** Returns the same advice for several fields that belong elsewhere. */
function adviceFor(fields: readonly string[], advice: string): Readonly<Record<string, string>> {
  return Object.fromEntries(fields.map((field) => [field, advice]));
}

/** Advice for rates and days that `gateway` or a group states. */
const termsAdvice = {
  ...adviceFor([...tokenClasses, "official", "gateway"], "write a fraction here, or the rate in a change of a model"),
  factors: "write it in a change of a model, or of all that a pattern matches",
  ...adviceFor(
    ["from", "until", "source"],
    "this block applies to all days; to date it, assign a group in a change with `from`",
  ),
  change: "write its fields here, without `change`",
};

const tierChange = block({
  from_prompt_tokens: tokens.describe("Smallest prompt of the tier."),
  official: gatewayRates.optional().describe("The provider's rates in this tier."),
  gateway: gatewayRates.optional().describe("The gateway's rates in this tier."),
  remove: z.literal(true, { error: "true, or leave it out" }).optional().describe("Removes the tier."),
});

const tierChanges = z
  .array(tierChange, { error: "a list of tiers" })
  .optional()
  .describe(
    "Changes of tiers, by `from_prompt_tokens`. Other tiers stay. A tier with another start is added; it needs the official rates of input and output.",
  );

const serviceTierChange = block({
  official: gatewayRates.optional().describe("The provider's rates in this service tier."),
  gateway: gatewayRates.optional().describe("The gateway's rates in this service tier."),
  tiers: tierChanges,
});

const count = decimal(
  'a decimal string in quotes, above 0, such as "5"',
  "it with at most twelve decimals",
  (text) => parseUsd(text) !== undefined,
).refine((text) => (parseUsd(text) ?? 0n) > 0n, { error: "a number above 0" });

const fieldWords = "the name of a field of the task's input, such as duration";

const taskPrice = block({
  from: day.describe("First UTC day of validity."),
  until: day.optional().describe("First UTC day after the validity; by default the next entry's `from`."),
  source: words.describe("Source of the price, and the day on which it was read."),
  per: z
    .enum(["task", "second", "piece"], { error: "task, second or piece" })
    .optional()
    .describe("Unit of the price: the whole task (default), or each second or piece of its result."),
  field: z
    .string({ error: fieldWords })
    .min(1, { error: fieldWords })
    .optional()
    .describe("Field of `input` that states the number of seconds or pieces."),
  default: count.optional().describe("Number of units if the field states none."),
  max: count.optional().describe("Largest number of units that the gateway produces for one task."),
  official: usd.describe("The provider's price in USD for each unit."),
  gateway: usd
    .optional()
    .describe("The gateway's price in USD for each unit; it takes precedence over group x official."),
});

const imageTokens = z.union(
  [
    block({
      base: tokens.describe("Tokens of an image at low detail, and of each image in addition to its tiles."),
      tile: tokens.describe("Tokens of a tile of 512 x 512 pixels."),
    }),
    block({
      patch: whole("the side of a patch in pixels, such as 32", 1).describe("Side of a patch in pixels."),
      most: whole("the largest number of patches of one image, such as 1536", 1).describe(
        "Largest number of patches of one image.",
      ),
      multiplier: factor.optional().describe('Tokens of a patch; default "1".'),
      longest: whole("the longest side of an image after scaling, in pixels", 1)
        .optional()
        .describe("Longest side of an image in pixels; a larger one is scaled down first."),
    }),
  ],
  { error: "a block of base and tile, or of patch, most, multiplier and longest" },
);

/** Returns a schema for the name of a request field that limits output. */
function bodyFieldOf(...names: readonly [string, ...string[]]) {
  return z.enum(names, { error: names.join(" or ") }).optional();
}

const maxOutputField = block({
  chat: bodyFieldOf("max_tokens", "max_completion_tokens").describe("Field of chat completions."),
  completions: bodyFieldOf("max_tokens").describe("Field of completions."),
  responses: bodyFieldOf("max_output_tokens").describe("Field of responses."),
}).describe(
  "Request field that limits the output, for each API. Farebox writes its limits into this field. If no field is given for an API, keys with an output cap cannot use the model with that API.",
);

const traits = {
  tokenizer: z
    .enum(["o200k_base", "cl100k_base"], { error: "o200k_base, cl100k_base, or null if it is not published" })
    .nullable()
    .optional()
    .describe("The model's own published tokenizer; null counts with o200k_base times error_factor."),
  streams: z
    .enum(streamKinds, { error: streamKinds.join(" or ") })
    .optional()
    .describe(
      "live: an answer arrives while it is generated, so that a hold can grow. burst (default): the answer may arrive all at once.",
    ),
  error_factor: factor.optional().describe("Factor by which o200k_base may undercount this model; default 1.5."),
  tokens_per_byte: factor
    .optional()
    .describe("Largest number of tokens for one byte of text; default 1 with a tokenizer, otherwise 1.5."),
  context_tokens: tokens.optional().describe("Largest number of tokens of a prompt and its answer."),
  max_output_tokens: tokens.optional().describe("Largest number of output tokens of one answer."),
  max_output_field: maxOutputField.optional(),
  image_part_tokens: partTokens
    .optional()
    .describe("Largest number of tokens of one image in a prompt; null if there is no bound."),
  image_tokens: imageTokens.nullable().optional().describe("Rule for images of known size."),
  prompt_form: z
    .enum(["chat", "harmony"], { error: "chat or harmony" })
    .optional()
    .describe("Format of tools in the prompt: chat (default), or harmony for OpenAI's reasoning models."),
  audio_part_tokens: partTokens
    .optional()
    .describe("Largest number of tokens of one recording in a prompt; null if there is no bound."),
  file_part_tokens: partTokens
    .optional()
    .describe("Largest number of tokens of one file in a prompt; null if there is no bound."),
  unit: z
    .enum(units, { error: "token, second or character" })
    .optional()
    .describe(
      "Unit of the sizes and the rates; rates are for one million units. Default: token. Seconds count as audio_input, characters as input.",
    ),
  images_only: flag
    .optional()
    .describe(
      "True if the model's rates apply only to the images endpoints, because only their usage states the tokens of images. Default false.",
    ),
  reasoning: flag
    .optional()
    .describe("True if the model may bill output that the client never receives; default true."),
  tokens_per_second: whole("a whole number of tokens a second", 1)
    .optional()
    .describe("Largest number of tokens that the model generates in a second, with its hidden reasoning."),
  bills_server_errors: flag
    .optional()
    .describe(
      "True if the gateway bills an answer of 5xx (except 504, 520 and 524), or an error inside a 2xx; default false.",
    ),
  obeys_max_tool_calls: flag
    .optional()
    .describe(
      "True if max_tool_calls limits the calls of hosted tools in one request. Default false: a hard budget then refuses such requests.",
    ),
};

/** Pattern for model names as clients send them. */
const modelName = /^[\p{L}\p{N}][\p{L}\p{M}\p{N}._:@/-]{0,127}$/u;
const modelNameWords = "a model name of letters, digits and . _ : @ / -, at most 128 characters";
/** Pattern for names of groups and providers, which become metric labels. */
const label = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const labelWords = "a name of lower-case letters, digits and . _ -, at most 63 characters";

const taskType = /^(\*|[^\p{Cc}\p{Cs}]{1,128})$/u;
const taskTypeWords = "a task type as clients send it, or * for all types that have no price";

const modelFields = {
  group: z
    .string({ error: "the name of a group" })
    .nullable()
    .optional()
    .describe("Group that states the share of the official price that the gateway charges."),
  ...traits,
  prices: z
    .array(price, { error: "a list of prices" })
    .optional()
    .describe("Prices in the order of their `from`. New prices are appended; existing ones are never changed."),
};

/** Pattern for keys of `models`: names, and patterns that change models. */
const modelKey = /^[\p{L}\p{N}*][\p{L}\p{M}\p{N}._:@/*-]{0,127}$/u;

const alias = z.string({ error: modelNameWords }).regex(modelName, { error: modelNameWords });
const provider = z.string({ error: labelWords }).regex(label, { error: labelWords }).optional();

const { unit: _unit, images_only: _imagesOnly, ...changedTraits } = traits;
const change = block(
  {
    from: day
      .optional()
      .describe(
        "First UTC day of the change. Required if the change states an amount, so that earlier days keep their price.",
      ),
    until: day.optional().describe("First UTC day after the change; by default it has no end."),
    source: words.optional().describe("Source of the amounts, such as `our contract`. Required if there are any."),
    group: z.string({ error: "the name of a group" }).optional().describe("Group of the model."),
    ...terms,
    official: gatewayRates.optional().describe("Official rates that differ, in USD per 1M tokens."),
    gateway: gatewayRates
      .optional()
      .describe("Rates of the gateway that differ, for the standard service tier below the first tier."),
    per_request: flatPrice.partial().optional().describe("Flat price of one request, for a model that has one."),
    tier_mode: tierMode.describe("The mode of the tiers: whole_request or marginal."),
    tiers: tierChanges,
    service_tiers: block({
      priority: serviceTierChange.optional().describe("Changes of the priority tier."),
      flex: serviceTierChange.optional().describe("Changes of the flex tier."),
      batch: serviceTierChange.optional().describe("Changes of the batch tier."),
    })
      .optional()
      .describe("Changes of other service tiers."),
    factors,
    aliases: z.array(alias, { error: "a list of names" }).optional().describe("More names of the model."),
    ...changedTraits,
  },
  adviceFor(tokenClasses, "write it under `gateway` for what the gateway charges, or under `official`"),
);

/** Advice for fields of a change or a price that a model states. */
const modelAdvice = {
  ...adviceFor(tokenClasses, "write it under `change`, in `gateway` or `official`"),
  ...adviceFor(
    [
      ...Object.keys(terms),
      "official",
      "gateway",
      "from",
      "until",
      "source",
      "tiers",
      "service_tiers",
      "factors",
      "per_request",
    ],
    "write it under `change`, or under `prices` of a whole model",
  ),
};

const model = block(
  {
    provider: provider.describe("Name of the model's family, if it differs from the file's."),
    aliases: z.array(alias, { error: "a list of names" }).optional().describe("Other names of the model."),
    served_as: z
      .array(alias, { error: "a list of names" })
      .optional()
      .describe("Names of other models that may answer instead. The gateway bills their answers as this model."),
    ...modelFields,
    tasks: named(taskType, taskTypeWords, z.array(taskPrice, { error: "a list of prices" }))
      .optional()
      .describe(
        "Prices of tasks by task type, in the order of their `from`; * applies to all other types. New prices are appended; existing ones are never changed.",
      ),
    change: change
      .optional()
      .describe("Changes single fields of a model, or of all models that a pattern such as `claude-*` matches."),
    changes: z
      .array(change, { error: "a list of changes" })
      .optional()
      .describe("Several changes, in the order of their `from`."),
  },
  modelAdvice,
);

const routeKey = new RegExp(`^(?:${routeMethods.join("|")}) (?:/(?:[A-Za-z0-9._~-]+|\\{task_id\\}))+$`);
const routeKeyWords = `a method (${routeMethods.join(", ")}) and a path of plain segments, such as "POST /mj/v2/imagine"; {task_id} stands for a task's id`;
const bodyField = z
  .string({ error: "the name of a field of the body" })
  .regex(/^[^\p{Cc}\p{Cs}]{1,128}$/u, { error: "the name of a field of the body" });
const keyName = z.string({ error: "the name of a key" }).min(1, { error: "the name of a key" });

const route = block({
  does: z
    .enum(routeKinds, { error: routeKinds.join(", ") })
    .describe("Action of the path. Uploads and settings cost nothing."),
  source: words.describe("Source of the path, and the day on which it was read."),
  model: alias.optional().describe("The model whose task prices apply, if the body names none."),
  model_field: bodyField.optional().describe("The field of the body that names the model."),
  type: z
    .string({ error: taskTypeWords })
    .regex(taskType, { error: taskTypeWords })
    .optional()
    .describe("The task type, if the body names none."),
  type_field: bodyField.optional().describe("The field of the body that names the task type."),
  input: bodyField
    .optional()
    .describe("Field of the body that contains the fields named by a price's `field`; by default the body itself."),
  task_field: bodyField
    .optional()
    .describe("Field of the body, or of the query of a GET, that names the task or a list of tasks."),
  keys: z
    .array(keyName, { error: "a list of names of keys" })
    .optional()
    .describe("Names of the keys that may use the route; by default all."),
});

const taskMinutesWords = "a whole number of minutes without quotes, at most 1440, or null for no limit";
const taskMinutes = z
  .int({ error: taskMinutesWords })
  .min(1, { error: taskMinutesWords })
  .max(1440, { error: taskMinutesWords });

export const priceFileSchema = block(
  {
    groups: named(label, labelWords, block(terms, termsAdvice))
      .optional()
      .describe("Groups of models for which the gateway charges the same share of the official price."),
    gateway: block(terms, termsAdvice)
      .optional()
      .describe("What the gateway charges for all models, with the fields of a group. A group and a model precede it."),
    task_units: named(
      label,
      labelWords,
      z
        .string({ error: 'a whole number in quotes, units for one USD, such as "10000000"' })
        .regex(/^[1-9]\d{0,17}$/, { error: 'a whole number in quotes, units for one USD, such as "10000000"' }),
    )
      .optional()
      .describe("Units of consumption that are worth one USD, by the `usage.type` of a task."),
    task_minutes: named(
      /^[a-z0-9]{1,62}$/,
      "one word of lower-case letters and digits, such as suno",
      taskMinutes.nullable(),
    )
      .optional()
      .describe(
        "Minutes after which a running task counts as failed, by a word in the name of its model or type; null removes the limit of an earlier file.",
      ),
    routes: named(routeKey, routeKeyWords, route.nullable())
      .optional()
      .describe(
        "Paths of the gateway that create, show or cancel tasks, by method and path; null removes the route of an earlier file.",
      ),
    default: block(modelFields).nullable().optional().describe("Ceiling price for models that no file names."),
    provider: provider.describe("Family name of all models in this file that state none."),
    defaults: block(traits).optional().describe("Defaults for all models of this file."),
    models: named(modelKey, modelNameWords, model).optional().describe("Models by name, with their prices."),
  },
  adviceFor(Object.keys(terms), "write it under `gateway` for all models, or under a group"),
);

export type PriceFile = z.infer<typeof priceFileSchema>;
export type StatedModel = z.infer<typeof model>;
export type StatedTraits = Omit<
  StatedModel,
  "provider" | "aliases" | "served_as" | "group" | "prices" | "tasks" | "change" | "changes"
>;
export type StatedPrice = z.infer<typeof price>;
export type StatedTerms = Pick<StatedChange, keyof typeof terms>;
export type StatedChange = z.infer<typeof change>;
export type StatedRoute = z.infer<typeof route>;
export type StatedTaskPrice = z.infer<typeof taskPrice>;
export type StatedFee = z.infer<typeof toolFee>;
/** One factor for all classes, or factors by class. */
export type StatedFactors = z.infer<typeof rateFactors>;

/** Names of the fields that describe a model itself. */
export const traitNames = Object.keys(traits) as (keyof typeof traits)[];

/** Names of the fields of a change that describe the model itself; the others describe its price. */
export const changedTraitNames = Object.keys(changedTraits) as (keyof typeof changedTraits)[];
export type StatedRates = Partial<Record<TokenClass, string | undefined>>;

/**
 * Returns the schema as JSON Schema, for editors. `pricing/schema.json` contains this text, and a test checks that the
 * two are equal.
 */
export function priceFileJsonSchema(): string {
  const schema = z.toJSONSchema(priceFileSchema, { io: "input", reused: "ref" });
  return `${JSON.stringify({ title: "Farebox price file", ...schema }, null, 2)}\n`;
}
