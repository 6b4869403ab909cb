import type { Accepted } from "./mutants.ts";

/** Mutants that no test kills, by their file in `src`, with the reason. */
export const survivors: Readonly<Record<string, readonly Accepted[]>> = {
  "core/budget.ts": [
    {
      why: "The pattern gives `team` and `key` a name always, and other scopes none.",
      mutants: [
        "parseScope: name !== undefined → true",
        "parseScope: name !== undefined → true",
        'parseScope: kind === "key" && name !== undefined → kind === "key" || name !== undefined',
        'parseScope: kind === "key" → true',
      ],
    },
    { why: "The room is the same amount either way.", mutants: ["tightestRoom: here < room → here <= room"] },
    { why: "Null is not below zero, and is what is returned.", mutants: ["tightestRoom: room === null → false"] },
  ],
  "core/settlement.ts": [
    {
      why: "The next case does the same for this outcome, which has neither `billed` nor `unknownTokens`.",
      mutants: [
        'settlementFor: case "refusedByGateway": return {kind: "void", reason: `gateway_${outcome.status}`}; → case "refusedByGateway":',
        'tokensUsed: case "refusedByGateway": return 0; → case "refusedByGateway":',
        'tokensUsed: case "reported": return promptTotal(outcome.tokens) + completionTotal(outcome.tokens); → case "reported":',
      ],
    },
    { why: "Null is never larger than a hold.", mutants: ["passesHold: settlement.cost !== null → true"] },
  ],
  "core/price.ts": [
    { why: "No service tier is called null.", mutants: ["inServiceTier: serviceTier === null → false"] },
    { why: "An empty text is read as 0 as well.", mutants: ['parseCanonicalPrice: "0" → ""'] },
  ],
  "core/cost.ts": [
    { why: "No fees add up to nothing.", mutants: ["costOf: price.fees === undefined → false"] },
    {
      why: "A shortcut for one tier: the way for several gives the same amount.",
      mutants: [
        "tokenCost: price.tiers.length === 1 → false",
        "tokenCost: {const rates = price.tiers[0][side]; let total = 0n; for (const name of tokenClasses) {const count =… → {}",
        "tokenCost: count !== 0 → true",
      ],
    },
    {
      why: "A shortcut: without a minimum no item fills it up.",
      mutants: ["withMinimum: minimum.tokens === 0 && minimum.usd === 0n → false"],
    },
    {
      why: "The caller leaves out parts without tokens.",
      mutants: [
        'marginalPrompt: [] → ["Stryker was here"]',
        "marginalPrompt: inTier > 0 → true",
        "marginalPrompt: inTier > 0 → inTier >= 0",
      ],
    },
  ],
  "core/bounds.ts": [
    {
      why: "The amount is the same either way: nothing is added, or the larger of two equal rates is taken.",
      mutants: [
        "promptWorst: inTier > 0 → inTier >= 0",
        "minimumWorst: here > top → here >= top",
        "highestRate: rates[name] > top → rates[name] >= top",
      ],
    },
  ],
  "core/slices.ts": [
    {
      why: "Tokens that are all counted have reached the line: they are not below it.",
      mutants: [
        "nextStep: standing.uncounted > 0 → standing.uncounted >= 0",
        "nextStep: standing.uncounted > 0 → true",
      ],
    },
  ],
  "proxy/growing-hold.ts": [
    {
      why: "Text that can no longer outgrow the hold is left out to save memory alone: no step looks at it.",
      mutants: [
        "Grower: this.#counts() → true",
        "Grower: this.#counts() → true",
        "Grower: this.#counts() → true",
        'Grower: this.#state !== "over" → true',
        'Grower: "over" → ""',
        'Grower: "over" → ""',
      ],
    },
    { why: "Every step but `wait` and `count` is an extension.", mutants: ['Grower: "extend" → ""'] },
  ],
  "core/usage.ts": [
    { why: "No number is less than an undefined one.", mutants: ["decompose: total !== undefined → true"] },
    {
      why: "A total that puts the cache outside has at least the prompt and the cache.",
      mutants: ["decompose: prompt + outside → prompt - outside"],
    },
    { why: "Nothing is cached: both places give the same tokens.", mutants: ['placeOfCache: "inside" → ""'] },
    {
      why: "A total that is equal fits inside or outside, which was decided before.",
      mutants: [
        "placeOfCache: total > prompt + completion → total >= prompt + completion",
        "placeOfCache: total < prompt + kept + completion → total <= prompt + kept + completion",
      ],
    },
    { why: "The loop sets every class.", mutants: ["mergeUsage: {...noTokens} → {}"] },
  ],
  "proxy/price.ts": [
    { why: "Counting a prompt of texts ignores tools.", mutants: ['createPricer: prompt.kind === "chat" → true'] },
    {
      why: "A shortcut: the longer way gives the same.",
      mutants: [
        "createPricer: models.length === 0 && mentions.length === 0 → false",
        "boundsOf: request.terms === undefined → false",
      ],
    },
    {
      why: "For the compiler alone: the callers pass no model without a price.",
      mutants: [
        "termsUnder: price === null → false",
        "termsUnder: {unbounded: [], tools: null} → {}",
        'termsUnder: [] → ["Stryker was here"]',
        "reservationForAll: first !== undefined → true",
        'reservationForAll: [] → ["Stryker was here"]',
        'reservationForAll: [] → ["Stryker was here"]',
      ],
    },
    {
      why: "Everything to the end is removed with or without the sign for it.",
      mutants: ["spellingsOf: /:.*$/s → /:.*/s"],
    },
  ],
};
