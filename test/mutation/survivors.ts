import type { Accepted } from "./mutants.ts";

/** Mutants that no test kills, by their file in `src`, with the reason. */
export const survivors: Readonly<Record<string, readonly Accepted[]>> = {
  "core/budget.ts": [
    {
      why: "The room is the same amount either way.",
      mutants: [
        "smallestRemaining: remaining < smallest → remaining <= smallest",
        "smallestRemaining: smallest < 0n → smallest <= 0n",
      ],
    },
    {
      why: "Null is not below zero, and the function returns null either way.",
      mutants: ["smallestRemaining: smallest === null → false"],
    },
    {
      why: "A shortcut: without raises, the sum is 0.",
      mutants: ["limitOf: raises.length === 0 → false"],
    },
  ],
  "core/alerts.ts": [
    {
      why: "Only the compiler needs this check: every group has a member.",
      mutants: ["alertGroups: alert !== undefined → true"],
    },
  ],
  "core/scope.ts": [
    {
      why: "Neither null nor undefined names a session.",
      mutants: [
        "isOfRequest: value !== null → true",
        "sessionOfScope: named !== null → true",
        "anchorsOf: session === undefined → false",
      ],
    },
    { why: "A scope that names no key has no key to change.", mutants: ["namedScope: key === null → false"] },
    { why: "Decoding leaves a text without escapes as it is.", mutants: ['decodeValue: "%" → ""'] },
    { why: "Splitting a text returns at least one piece.", mutants: ['readSubject: "" → "Stryker was here!"'] },
    { why: "No condition before the first one repeats it.", mutants: ["readScope: before !== undefined → true"] },
    {
      why: "A text that does not match has no groups, and one that matches has all of them.",
      mutants: [
        'readCondition: [] → ["Stryker was here"]',
        'readCondition: [] → ["Stryker was here"]',
        'readCondition: "" → "Stryker was here!"',
      ],
    },
    {
      why: "Conditions with equal names are refused, and sorting asks only which of two comes first.",
      mutants: [
        "inOrder: a.name < b.name → a.name <= b.name",
        "inOrder: a.name > b.name → true",
        "inOrder: a.name > b.name → false",
        "inOrder: a.name > b.name → a.name >= b.name",
        "inOrder: a.name > b.name → a.name <= b.name",
      ],
    },
  ],
  "core/keys.ts": [
    { why: "No two names of one object are equal.", mutants: ["changedValues: one < other → one <= other"] },
    { why: 'The text "undefined" names no session.', mutants: ["runSessionOf: value !== undefined → true"] },
    {
      why: "Splitting a text returns at least one piece.",
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
  "request/hold.ts": [
    {
      why: "A hold of the whole cost has no first slice, and one that grows always has.",
      mutants: [
        "holdPlan: plan.growth === null → false",
        "holdPlan: plan.growth !== null → true",
        "holdPlan: plan.growth !== null && firstSlice !== null → plan.growth !== null || firstSlice !== null",
        "holdPlan: firstSlice !== null → true",
      ],
    },
    { why: "Without `fit`, there are no tokens to fit.", mutants: ["placeHold: fit?.(tokens) → fit(tokens)"] },
    { why: "0 is returned either way.", mutants: ["roomNow: room > 0n → room >= 0n"] },
  ],
  "core/settlement.ts": [
    {
      why: "The next case does the same for this outcome, which has a reason, is not billed, and leaves no tokens unknown.",
      mutants: [
        'settlementOf: case "notSent": return {kind: "void", reason: outcome.reason}; → case "notSent":',
        'tokensUsed: case "refusedByGateway": return 0; → case "refusedByGateway":',
        'tokensUsed: case "reported": return promptTotal(outcome.tokens) + completionTotal(outcome.tokens); → case "reported":',
      ],
    },
    { why: "Null is never larger than a hold.", mutants: ["exceedsHold: settlement.cost !== null → true"] },
  ],
  "core/model-names.ts": [
    {
      why: "A comparison with undefined is never true.",
      mutants: [
        "baseName: datedYear !== undefined → true",
        "baseName: datedMonth !== undefined → true",
        "baseName: datedDay !== undefined → true",
      ],
    },
  ],
  "core/price.ts": [
    { why: "No variant is called null.", mutants: ["inServiceTier: variant === null → false"] },
    { why: "An empty text is also read as 0.", mutants: ['parseCanonicalPrice: "0" → ""'] },
  ],
  "core/running.ts": [
    {
      why: "A removed item was added before, so there is a last item.",
      mutants: ["Running: last === undefined → false"],
    },
  ],
  "request/meter.ts": [
    { why: "The code only asks whether the unit is characters.", mutants: ['meterResponse: "token" → ""'] },
    {
      why: "Only prompts of a chat have images, which are cut off at their number.",
      mutants: ['countAll: [] → ["Stryker was here"]'],
    },
  ],
  "request/charged-usage.ts": [
    {
      why: "A text that is not a class has no tokens in a usage, and is left out.",
      mutants: ['mediaClasses: [] → ["Stryker was here"]', 'mediaClasses: [] → ["Stryker was here"]'],
    },
  ],
  "core/cost.ts": [
    {
      why: "Without fees, the sum is 0.",
      mutants: [
        "costOf: price.fees === undefined → false",
        "costOf: fees.length === 0 → false",
        "feeItems: billing === standardBilling → false",
      ],
    },
    {
      why: "A shortcut for one tier: the code for several tiers returns the same amount.",
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
      why: "A shortcut: the general code returns the same result.",
      mutants: [
        "partTokens: size.imageParts + size.audioParts + size.fileParts === 0 → false",
        "minimumWorst: minimum.tokens === 0 → false",
      ],
    },
    { why: "Equal fees are the same.", mutants: ["toolBoundOf: charged > most → charged >= most"] },
  ],
  "core/rate-variants.ts": [{ why: "Neither text is a name.", mutants: ['serviceTierOf: "" → "Stryker was here!"'] }],
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
      why: "Text that can no longer outgrow the hold is left out only to save memory. No step reads it.",
      mutants: [
        "GrowingHold: this.#canOutgrowHold() → true",
        "GrowingHold: this.#canOutgrowHold() → true",
        "GrowingHold: this.#canOutgrowHold() → true",
        'GrowingHold: this.#state !== "over" → true',
        'GrowingHold: "over" → ""',
      ],
    },
    { why: "Every step but `wait` and `count` is an extension.", mutants: ['GrowingHold: "extend" → ""'] },
    {
      why: "An extension is for more tokens than the hold pays for, which cost more than it.",
      mutants: ["GrowingHold: lacking > 0n → true", "GrowingHold: lacking > 0n → lacking >= 0n"],
    },
  ],
  "core/usage.ts": [
    { why: "No number is less than an undefined one.", mutants: ["splitKnown: total !== undefined → true"] },
    {
      why: "A total that puts the cache outside has at least the prompt and the cache.",
      mutants: ["splitKnown: prompt + outside → prompt - outside"],
    },
    { why: "Nothing is cached: both places give the same tokens.", mutants: ['cachePosition: "inside" → ""'] },
    {
      why: "An equal total fits inside or outside. An earlier case has decided this.",
      mutants: [
        "cachePosition: total > prompt + completion → total >= prompt + completion",
        "cachePosition: total < prompt + cacheTokens + completion → total <= prompt + cacheTokens + completion",
      ],
    },
  ],
  "core/several-usages.ts": [{ why: "The loop sets every class.", mutants: ["addUsage: {...noTokens} → {}"] }],
  "request/price.ts": [
    {
      why: "Sorting asks only which of two comes first.",
      mutants: [
        "idsByCost: one.hold < other.hold → true",
        "idsByCost: one.hold < other.hold → false",
        "idsByCost: one.hold < other.hold → one.hold <= other.hold",
        "idsByCost: one.hold < other.hold → one.hold >= other.hold",
        "idsByCost: one.hold !== null → false",
      ],
    },
    {
      why: "Models that a request only mentions are already listed after the others.",
      mutants: [
        "idsByCost: Number(other.isStated) - Number(one.isStated) → Number(other.isStated) + Number(one.isStated)",
      ],
    },
    {
      why: "A shortcut: the general code returns the same result.",
      mutants: [
        "Pricer: byBytes === null → false",
        "Pricer: counted === undefined → true",
        "Pricer: prompt === undefined → false",
        "namesOneModel: models.length === 0 && mentions.length === 0 → false",
        "namesOneModel: {return models.length === 0 && mentions.length === 0;} → {}",
        "modelsNamed: namesOneModel(request) → false",
        "boundsOf: request.terms === undefined → false",
      ],
    },
    {
      why: "A request with an unknown model has no bound, so its maximum is not used.",
      mutants: ["affordableOf: model === undefined → false", 'outputMaxOfAll: [] → ["Stryker was here"]'],
    },
    {
      why: "Of two models with the same cost, either is the most expensive one.",
      mutants: [
        "worstCaseForAll: (one.hold ?? noMoney) > (most.hold ?? noMoney) → (one.hold ?? noMoney) >= (most.hold ?? noMoney)",
      ],
    },
    {
      why: "Only the compiler needs this check: the callers pass no model without a price.",
      mutants: [
        "termsUnder: price === null → false",
        "termsUnder: {unbounded: [], tools: null} → {}",
        'termsUnder: [] → ["Stryker was here"]',
        "worstCaseForAll: first !== undefined → true",
        'worstCaseForAll: [] → ["Stryker was here"]',
      ],
    },
  ],
  "core/money.ts": [
    { why: "The pattern always has whole digits.", mutants: ['scaled: "0" → ""'] },
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
      why: "Undefined is not larger than any amount, and the function returns undefined either way.",
      mutants: ["parseUsd: value === undefined → false"],
    },
    {
      why: "The pattern always has whole digits, and splitting a text returns at least one piece.",
      mutants: ['plainDecimal: "" → "Stryker was here!"', 'scaledDecimal: "" → "Stryker was here!"'],
    },
    { why: "An empty text is also the number 0.", mutants: ['plainDecimal: "0" → ""'] },
  ],
  "core/tasks.ts": [
    {
      why: "No ceiling is undefined or null and above 0.",
      mutants: ["exceededCeiling: family === null → false", "exceededCeiling: limit !== null → true"],
    },
    { why: "Neither text names a family.", mutants: ['familyOf: "" → "Stryker was here!"'] },
  ],
  "core/reconciliation.ts": [
    {
      why: "Only the compiler needs these checks: the index is within the list, and compared samples exist and state the figure.",
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
    { why: "The time before the first sample also counts as idle.", mutants: ["intervalsOf: index === 0 → false"] },
    {
      why: "A text has no time and no kind, so nothing counts it.",
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
      why: "A text is neither above nor below 0, so no sum counts it.",
      mutants: ['creditMovements: [] → ["Stryker was here"]', 'creditMovements: [] → ["Stryker was here"]'],
    },
    {
      why: "A balance states no credits, so no credits moved.",
      mutants: ["creditMovements: !measure.isCounter → false"],
    },
    { why: "0 over anything is 0, rounded up or not.", mutants: ["roundedUp: value > 0n → value >= 0n"] },
    {
      why: "If the ledger charged nothing, no group's part is above 0.",
      mutants: ["explainingGroups: ledger <= 0n → ledger < 0n"],
    },
  ],
  "core/account.ts": [
    {
      why: "The pattern always has a sign and whole digits.",
      mutants: ['scaledFigure: "" → "Stryker was here!"', 'scaledFigure: "" → "Stryker was here!"'],
    },
    { why: "The text of undefined is no figure.", mutants: ["scaledFigure: text === undefined → false"] },
    { why: "Equal steps are the same.", mutants: ["stepOf: step < atMost → step <= atMost"] },
    { why: "The result is 0 either way.", mutants: ["unsettledAt: settled > 0n → settled >= 0n"] },
    {
      why: "Only the compiler needs these checks: a measure consists of existing samples.",
      mutants: [
        "isStalled: true → false",
        "isStalled: first === undefined || last === undefined → false",
        "isStalled: first === undefined || last === undefined → first === undefined && last === undefined",
        "isStalled: first === undefined → false",
        "isStalled: last === undefined → false",
      ],
    },
    {
      why: "Of pairs with equal balances, either gives the same rate, or the pairs do not fit one rate.",
      mutants: ["creditsPerUsd: pair.usd > best.usd → pair.usd >= best.usd"],
    },
    {
      why: "Credits worth more than a dollar each are too few to measure a thousandth.",
      mutants: ["creditsPerUsd: perUsd > 0n → true", "creditsPerUsd: perUsd > 0n → perUsd >= 0n"],
    },
    { why: "0 is its own opposite.", mutants: ["absolute: value < 0n → value <= 0n"] },
  ],
  "core/task-settlement.ts": [
    {
      why: "An abandoned task has no status.",
      mutants: [
        'lacksConsumption: outcome.kind !== "ended" → false',
        'taskSettlementFor: outcome.kind === "ended" → true',
      ],
    },
    {
      why: "The settlement is assumed, so it proves no amount.",
      mutants: ["laterAmounts: lacksConsumption(reserved, outcome) → false"],
    },
    {
      why: "Only the compiler needs these checks: a task that is reported or posted has a cost.",
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
      why: "Only the compiler needs this text: a task that did not complete has a status.",
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
  "core/task-routes.ts": [
    { why: "Splitting a text returns at least one piece.", mutants: ['canonicalSegment: "" → "Stryker was here!"'] },
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
      why: "The file itself contains the ranges, and each of them is valid.",
      mutants: ["parseRange: range === undefined → false", "parseRange: `not a range of addresses: ${text}` → ``"],
    },
    {
      why: "Splitting a text returns at least one piece, and a pattern that matches has its groups.",
      mutants: [
        'rangeIn: "" → "Stryker was here!"',
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
    { why: "One patch is a whole number of patches.", mutants: ["shareWhole: patches < 1 → patches <= 1"] },
  ],
};
