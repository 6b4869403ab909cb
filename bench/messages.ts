/** Parameters of a benchmark process. Its first argument contains them as JSON. */
export interface StartParams {
  /** Address of the gateway that the proxy uses; "" if the process is a gateway. */
  readonly gatewayUrl: string;
  /** The gateway's key. */
  readonly gatewayKey: string;
  /** Empty folder for this process alone. */
  readonly folder: string;
  /** Engine of Farebox. */
  readonly engine: "http-proxy-middleware" | "undici";
  /** Number of chunks of a paced stream. */
  readonly chunks: number;
  /** Time between two chunks of a paced stream, in milliseconds. */
  readonly chunkMs: number;
  /** Path of another program's executable, or of the checkout of Farebox that is served; "" for the other targets. */
  readonly program: string;
  /** Ledger that Farebox copies and then serves; "" to create a ledger. */
  readonly database: string;
  /** Number of additional keys, each with a hard budget. */
  readonly keys: number;
  /** True if the key of `farebox serve` has a hard budget. */
  readonly hasBudget: boolean;
  /** Number of Farebox's worker processes; 1 by default. */
  readonly workers?: number;
}

export interface Ready {
  readonly kind: "ready";
  readonly port: number;
  /** Key that clients must send. */
  readonly key: string;
}

/** CPU time of all threads since the start, and memory. Both include child processes. */
export interface ProcessFigures {
  readonly cpuUs: number;
  readonly rssBytes: number;
  readonly peakRssBytes: number;
}

/** Figures of Farebox's ledger once every request is settled. */
export interface LedgerFigures {
  readonly charges: number;
  readonly pending: number;
  readonly posted: number;
  /** Number of charges posted with the source `reported`. */
  readonly reported: number;
  readonly differences: number;
  /** Time to verify the ledger. */
  readonly verifySeconds: number;
  /** Time to report a month by key and model. */
  readonly reportSeconds: number;
}

export interface Answers {
  readonly figures: ProcessFigures;
  readonly ledger: LedgerFigures;
  readonly stop: null;
}

export type Query = keyof Answers;
export type ToChild = { readonly query: Query };
export type FromChild =
  | Ready
  | { readonly kind: "answer"; readonly answer: Answers[Query] }
  | { readonly kind: "failed"; readonly message: string };
