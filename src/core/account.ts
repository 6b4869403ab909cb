/** What is told of the gateway account's credits: paid in, used up, reserved for what runs, left. */
export const creditKinds = ["total", "used", "frozen", "available"] as const;
export type CreditKind = (typeof creditKinds)[number];

/** In the gateway's own credits, as it stated them. Null is unknown, never 0. */
export type Credits = Readonly<Record<CreditKind, number | null>>;
