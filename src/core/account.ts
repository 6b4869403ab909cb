/** The gateway account's credits: paid in, used, reserved for requests in flight, left. */
export const creditKinds = ["total", "used", "frozen", "available"] as const;
export type CreditKind = (typeof creditKinds)[number];

/** Credits in the gateway's own unit. Null is unknown, never 0. */
export type Credits = Readonly<Record<CreditKind, number | null>>;
