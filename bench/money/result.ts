import type { Configuration, Mode, Peer, ScenarioName, Unknown } from "./peer.ts";

/** Amounts are decimal strings of USD. */
export interface Comparison {
  readonly billedUsd: string;
  readonly recordedUsd: string | Unknown;
  /** Share of the bill that the ledger records, in percent; null if nothing was billed. */
  readonly recordedPercent: number | null | Unknown;
}

/** Progress of the first requests when the peer was killed. */
export interface AtKill {
  /** Requests that had reached the gateway; read right after the kill. */
  readonly requests: number;
  /** Events with text that the gateway had written to streams. */
  readonly deltas: number;
  /** Clients that had their answers. */
  readonly ended: number;
}

/** Figures of one scenario with one peer in one configuration. */
export interface Figures extends Comparison {
  /** Comparison before the last load, in scenarios that kill the peer. It shows what the ledger lost. */
  readonly checkpoint: Comparison | null;
  /** Present only in scenarios that kill the peer at a stated moment. Runs before 26 November 2026 did not record it. */
  readonly atKill?: AtKill;
  readonly limitUsd: string;
  /** The gateway's bill in percent of the limit. */
  readonly billedPercentOfLimit: number;
  readonly exceededByUsd: string;
  readonly sent: number;
  /** Requests that reached the gateway. */
  readonly letThrough: number;
  readonly refused: number;
  /** Refused requests that the rest of the budget would have paid for; null if the requests have no common price. */
  readonly refusedThatWouldHaveFit: number | null;
  /** Number of requests by their result, such as "402 insufficient_quota". */
  readonly told: Readonly<Record<string, number>>;
}

export interface Result {
  readonly peer: string;
  readonly mode: Mode;
  readonly scenario: ScenarioName;
  readonly figures: Figures | Unknown;
  readonly seconds: number;
  /** Day of the run, in UTC. */
  readonly day?: string;
  /** True if the peer, the gateway and the clients ran in a separate network namespace, which has only loopback. */
  readonly isNamespaced?: boolean;
  /** Commit of Farebox and of the benchmark. */
  readonly commit?: string;
  /** Average load of the minute before the scenario ended. It includes the load of the scenario. */
  readonly loadAverage?: number;
}

/** Machine of the last run. */
export type Machine = Readonly<Record<string, string | number>>;

/** Facts about a peer for the page. */
export interface PeerFacts {
  readonly title: string;
  readonly homepage: string;
  readonly version: string;
  readonly install: readonly string[];
  readonly configurations: Readonly<Record<Mode, Configuration | null>>;
  readonly strengths: string;
}

/** Contents of the JSON file. */
export interface Report {
  readonly machine: Machine;
  readonly command: string;
  readonly peers: Readonly<Record<string, PeerFacts>>;
  readonly results: readonly Result[];
}

/** Adds results to a report. They replace results of the same peer, configuration and scenario. Keeps the report's comments. */
export function addResults(
  report: Report | null,
  { name, title, homepage, version, install, configurations, strengths }: Peer,
  results: readonly Result[],
  machine: Machine,
): Report {
  const isReplaced = (old: Result) =>
    results.some(({ peer, mode, scenario }) => old.peer === peer && old.mode === mode && old.scenario === scenario);
  return {
    ...report,
    machine,
    command: `npm run bench:money -- --peers ${name} --json FILE`,
    peers: { ...report?.peers, [name]: { title, homepage, version, install, configurations, strengths } },
    results: [...(report?.results ?? []).filter((old) => !isReplaced(old)), ...results],
  };
}
