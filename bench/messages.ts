/** What a process of the benchmark is started with: the first argument, as JSON. */
export interface StartOrder {
  /** Where the proxy's gateway listens; "" for a gateway. */
  readonly gatewayUrl: string;
  /** The gateway's key. */
  readonly gatewayKey: string;
  /** An empty folder of the process' own. */
  readonly folder: string;
  /** What Farebox sends with. */
  readonly engine: "http-proxy-middleware" | "undici";
  /** Chunks of a paced stream, and the time between two of them. */
  readonly chunks: number;
  readonly chunkMs: number;
  /** Where the executable of another program is; "" for what is in this repository. */
  readonly program: string;
  /** A ledger whose copy Farebox serves; "" for a new one. */
  readonly database: string;
  /** Keys with a hard budget each that are there beside its own. */
  readonly keys: number;
  /** Processes of Farebox that answer; 1 unless given. */
  readonly workers?: number;
}

export interface Ready {
  readonly kind: "ready";
  readonly port: number;
  /** What its clients authenticate with. */
  readonly key: string;
}

/** CPU of all threads since the start, and memory: of a program with children, theirs too. */
export interface ProcessFigures {
  readonly cpuUs: number;
  readonly rssBytes: number;
  readonly peakRssBytes: number;
}

/** What Farebox's ledger says when every request is settled. */
export interface Books {
  readonly charges: number;
  readonly pending: number;
  readonly posted: number;
  /** Posted by the usage that the gateway reported. */
  readonly reported: number;
  readonly differences: number;
  /** How long it took to find that out, and to report a month by key and model. Seconds. */
  readonly verifySeconds: number;
  readonly reportSeconds: number;
}

export interface Answers {
  readonly figures: ProcessFigures;
  readonly books: Books;
  readonly stop: null;
}

export type Question = keyof Answers;
export type ToChild = { readonly ask: Question };
export type FromChild =
  | Ready
  | { readonly kind: "answer"; readonly answer: Answers[Question] }
  | { readonly kind: "failed"; readonly message: string };
