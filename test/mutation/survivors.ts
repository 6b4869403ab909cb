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
    {
      why: "The room is the same amount either way.",
      mutants: ["tightestRoom: here < room → here <= room", "tightestRoom: room < 0n → room <= 0n"],
    },
    { why: "Null is not below zero, and is what is returned.", mutants: ["tightestRoom: room === null → false"] },
  ],
  "core/keys.ts": [
    {
      why: "Every session began at or after null, which counts as 1970.",
      mutants: ["isSecretReplaced: rotatedAt === null → false"],
    },
    {
      why: "A text that is split has a piece.",
      mutants: ['matchesPattern: "" → "Stryker was here!"', 'matchesPattern: "" → "Stryker was here!"'],
    },
    {
      why: "A shortcut: the last line compares the same lengths.",
      mutants: [
        "matchesPattern: text.length < first.length + last.length → false",
        "matchesPattern: first.length + last.length → first.length - last.length",
      ],
    },
  ],
  "core/settlement.ts": [
    {
      why: "The next case does the same for this outcome, which has a reason, is not billed, and leaves no tokens unknown.",
      mutants: [
        'settlementFor: case "notSent": return {kind: "void", reason: outcome.reason}; → case "notSent":',
        'tokensUsed: case "refusedByGateway": return 0; → case "refusedByGateway":',
        'tokensUsed: case "reported": return promptTotal(outcome.tokens) + completionTotal(outcome.tokens); → case "reported":',
      ],
    },
    { why: "Null is never larger than a hold.", mutants: ["exceedsHold: settlement.cost !== null → true"] },
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
    {
      why: "A shortcut: the longer way gives the same.",
      mutants: [
        "partTokens: size.imageParts + size.audioParts + size.fileParts === 0 → false",
        "minimumWorst: minimum.tokens === 0 → false",
      ],
    },
    { why: "Neither text is a name.", mutants: ['serviceTierOf: "" → "Stryker was here!"'] },
    { why: "A shortcut: no service tier is called null.", mutants: ["tiersToHold: stated === null → false"] },
    { why: "Equal fees are the same.", mutants: ["toolBoundOf: charged > most → charged >= most"] },
  ],
  "core/slices.ts": [
    {
      why: "Tokens that are all counted have reached the line: they are not below it.",
      mutants: [
        "nextStep: progress.uncounted > 0 → progress.uncounted >= 0",
        "nextStep: progress.uncounted > 0 → true",
      ],
    },
  ],
  "request/growing-hold.ts": [
    {
      why: "Text that can no longer outgrow the hold is left out to save memory alone: no step looks at it.",
      mutants: [
        "GrowingHold: this.#counts() → true",
        "GrowingHold: this.#counts() → true",
        "GrowingHold: this.#counts() → true",
        'GrowingHold: this.#state !== "over" → true',
        'GrowingHold: "over" → ""',
        'GrowingHold: "over" → ""',
      ],
    },
    { why: "Every step but `wait` and `count` is an extension.", mutants: ['GrowingHold: "extend" → ""'] },
    {
      why: "An extension is for more tokens than the hold pays for, which cost more than it.",
      mutants: ["GrowingHold: lacking > 0n → true", "Grower: lacking > 0n → lacking >= 0n"],
    },
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
  "request/price.ts": [
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
  "core/money.ts": [
    { why: "The pattern has whole digits always.", mutants: ['scaled: "0" → ""'] },
    {
      why: "Equal amounts, and 0, give the same either way.",
      mutants: [
        "larger: a > b → a >= b",
        "smaller: a < b → a <= b",
        "stepsOf: part <= 0n → part < 0n",
        "formatScaled: value < 0n → value <= 0n",
      ],
    },
    {
      why: "Undefined is larger than nothing, and is what is returned.",
      mutants: ["parseUsd: value === undefined → false"],
    },
    {
      why: "The pattern gives whole digits always, and a text that is split has a piece.",
      mutants: ['plainDecimal: "" → "Stryker was here!"', 'scaledDecimal: "" → "Stryker was here!"'],
    },
    { why: "An empty text is the number 0 as well.", mutants: ['plainDecimal: "0" → ""'] },
  ],
  "core/tasks.ts": [
    {
      why: "No ceiling is undefined or null and above 0.",
      mutants: ["ceilingMet: family === null → false", "ceilingMet: limit !== null → true"],
    },
    { why: "Neither text names a family.", mutants: ['familyOf: "" → "Stryker was here!"'] },
    { why: "Neither text names a family.", mutants: ['timeLimitOf: "" → "Stryker was here!"'] },
  ],
  "core/reconciliation.ts": [
    {
      why: "For the compiler alone: the index is within the list, a sample that is compared states the figure, and there is one.",
      mutants: [
        "reconcile: first === undefined || last === undefined → false",
        "reconcile: first === undefined || last === undefined → first === undefined && last === undefined",
        "reconcile: first === undefined → false",
        "reconcile: last === undefined → false",
        "settledEnds: samples[0]?.askedAt → samples[0].askedAt",
        "settledEnds: samples.at(-1)?.askedAt → samples.at(-1).askedAt",
        "intervalsOf: a === undefined || b === undefined → false",
        "intervalsOf: a === undefined || b === undefined → a === undefined && b === undefined",
        "intervalsOf: a === undefined → false",
        "intervalsOf: b === undefined → false",
        "intervalsOf: from === undefined || to === undefined → from === undefined && to === undefined",
        "intervalsOf: from === undefined || to === undefined → false",
        "intervalsOf: from === undefined → false",
        "intervalsOf: to === undefined → false",
        "creditMovements: used === undefined → false",
        "walletTotal: used === undefined → false",
      ],
    },
    { why: "Before the first sample counts as idle as well.", mutants: ["intervalsOf: index === 0 → false"] },
    {
      why: "A text has no time and no kind, so that nothing counts it.",
      mutants: ['reconcile: [] → ["Stryker was here"]', 'intervalsOf: [] → ["Stryker was here"]'],
    },
    {
      why: "Adding 0 changes no sum.",
      mutants: [
        "movementsOf: amount > 0n → amount >= 0n",
        "movementsOf: amount < 0n → amount <= 0n",
        "creditMovements: amount > 0n → amount >= 0n",
        "creditMovements: amount < 0n → amount <= 0n",
      ],
    },
    {
      why: "A text is neither above 0 nor below it, so that no sum counts it.",
      mutants: ['creditMovements: [] → ["Stryker was here"]', 'creditMovements: [] → ["Stryker was here"]'],
    },
    {
      why: "A balance states no credits, so that nothing of them moved.",
      mutants: ["creditMovements: !measure.isCounter → false"],
    },
    { why: "0 over anything is 0, rounded up or not.", mutants: ["roundedUp: value > 0n → value >= 0n"] },
    {
      why: "Of a ledger that charged nothing, no group's part is above 0.",
      mutants: ["explainingGroups: ledger <= 0n → ledger < 0n"],
    },
  ],
  "core/account.ts": [
    {
      why: "The pattern gives a sign and whole digits always.",
      mutants: ['scaledFigure: "" → "Stryker was here!"', 'scaledFigure: "" → "Stryker was here!"'],
    },
    { why: "The text of undefined is no figure.", mutants: ["scaledFigure: text === undefined → false"] },
    { why: "Equal steps are the same.", mutants: ["stepOf: step < atMost → step <= atMost"] },
    { why: "Either way it is 0.", mutants: ["unsettledAt: settled > 0n → settled >= 0n"] },
    {
      why: "For the compiler alone: a measure is made of samples that there are.",
      mutants: [
        "isStalled: true → false",
        "isStalled: first === undefined || last === undefined → false",
        "isStalled: first === undefined || last === undefined → first === undefined && last === undefined",
        "isStalled: first === undefined → false",
        "isStalled: last === undefined → false",
      ],
    },
    {
      why: "Of equal balances either gives the same worth, or one of them fits none.",
      mutants: ["creditsPerUsd: pair.usd > best.usd → pair.usd >= best.usd"],
    },
    {
      why: "Credits worth more than a dollar each are too few to tell a thousandth.",
      mutants: ["creditsPerUsd: perUsd > 0n → true", "creditsPerUsd: perUsd > 0n → perUsd >= 0n"],
    },
    { why: "Nothing is its own opposite.", mutants: ["absolute: value < 0n → value <= 0n"] },
  ],
  "core/task-settlement.ts": [
    {
      why: "A task that was given up has no status.",
      mutants: ['isUnstated: outcome.kind !== "ended" → false', 'taskSettlementFor: outcome.kind === "ended" → true'],
    },
    {
      why: "Its settlement is assumed, which proves no amount.",
      mutants: ["laterAmounts: isUnstated(reserved, outcome) → false"],
    },
    {
      why: "For the compiler alone: a task that is reported or posted has a cost.",
      mutants: ["laterAmounts: cost !== null → true", "covers: posted.cost !== null → true"],
    },
    {
      why: "A price of requests, and a quantity that is not known, give no amounts.",
      mutants: [
        "taskSettlementFor: reserved.price?.task !== undefined → true",
        "taskSettlementFor: reserved.quantity !== null → true",
      ],
    },
    { why: "No cost is less than null.", mutants: ["covers: hold === null → false"] },
    {
      why: "For the compiler alone: a task that did not complete has a word for its end.",
      mutants: ["taskSettlementFor: `task_${outcome.status}` → ``"],
    },
    {
      why: "Equal scales are the same, and no two types in a map are equal.",
      mutants: [
        "sumRawUnits: scaledDecimal(units).scale > largest → scaledDecimal(units).scale >= largest",
        "sumRawUnits: a < b → a <= b",
      ],
    },
  ],
  "core/postgres-url.ts": [
    {
      why: "A host has brackets around all of it or none.",
      mutants: ["decodedParts: /^\\[(.*)\\]$/ → /\\[(.*)\\]$/", "decodedParts: /^\\[(.*)\\]$/ → /^\\[(.*)\\]/"],
    },
  ],
  "core/task-routes.ts": [
    { why: "A text that is split has a piece.", mutants: ['canonicalSegment: "" → "Stryker was here!"'] },
    { why: "Nothing is at the index -1.", mutants: ["matchRoute: at === -1 → false"] },
    {
      why: "The canonical path, which was compared before, has fewer segments than a path with an empty one.",
      mutants: ['matches: segments[index] !== "" → true', 'matches: "" → "Stryker was here!"'],
    },
    { why: "Decoding leaves a text without escapes as it is.", mutants: ['canonicalSegments: "%" → ""'] },
    {
      why: "All of them are removed, together or one by one.",
      mutants: ["canonicalSegment: /[\\p{Cc}\\p{Cf}\\s]+/gu → /[\\p{Cc}\\p{Cf}\\s]/gu"],
    },
  ],
  "core/addresses.ts": [
    { why: "No rule allows undefined.", mutants: ["isAllowed: kind !== undefined → true"] },
    {
      why: "The ranges are written in the file itself, and each of them is one.",
      mutants: ["parseRange: ip === undefined → false", "parseRange: `not a range of addresses: ${text}` → ``"],
    },
    {
      why: "A text that is split has a piece, and a pattern that matches has its groups.",
      mutants: [
        'parseRange: "" → "Stryker was here!"',
        'parseV6: "" → "Stryker was here!"',
        'parseV6: [] → ["Stryker was here"]',
      ],
    },
    {
      why: "What remains has a line break, and is no address.",
      mutants: ["parseIp: /%.*$/ → /%.*/"],
    },
  ],
  "core/prompt-text.ts": [
    { why: "One patch is a whole number of patches.", mutants: ["share: patches < 1 → patches <= 1"] },
  ],
};
