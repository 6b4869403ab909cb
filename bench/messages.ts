/** Parameters of a benchmark process: its first argument, as JSON. */
export interface StartParams {
  /** Address of the proxy's gateway; "" for a gateway. */
  readonly gatewayUrl: string;
  /** The gateway's key. */
  readonly gatewayKey: string;
  /** An empty folder of the process' own. */
  readonly folder: string;
  /** Engine that Farebox sends with. */
  readonly engine: "http-proxy-middleware" | "undici";
  /** Chunks of a paced stream, and the time between two of them. */
  readonly chunks: number;
  readonly chunkMs: number;
  /** Path of another program's executable; "" for what is in this repository. */
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
  /** Key of its clients. */
  readonly key: string;
}

/** CPU of all threads since the start, and memory: of a program with children, theirs too. */
export interface ProcessFigures {
  readonly cpuUs: number;
  readonly rssBytes: number;
  readonly peakRssBytes: number;
}

/** Figures of Farebox's ledger once every request is settled. */
export interface Books {
  readonly charges: number;
  readonly pending: number;
  readonly posted: number;
  /** Posted by the usage that the gateway reported. */
  readonly reported: number;
  readonly differences: number;
  /** Seconds to verify the ledger, and to report a month by key and model. */
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
