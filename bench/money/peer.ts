import type { PicoUsd } from "../../src/core/money.ts";

/**
 * `default`: the configuration in which the documentation starts the product, with the budget added. `strictest`: the
 * strictest documented configuration.
 */
export const modes = ["default", "strictest"] as const;
export type Mode = (typeof modes)[number];

export const scenarioNames = [
  "burst",
  "burst-with-retries",
  "burst-max-tokens",
  "streams-through-the-end",
  "leave-before-headers",
  "leave-half-way",
  "leave-plain",
  "gateway-cuts",
  "no-usage",
  "usage-not-asked",
  "custom-tool",
  "one-burst",
  "other-model",
  "kill-during-holds",
  "kill-during-answers",
  "kill-after-answers",
  "restart-in-window",
  "task-polls",
] as const;
export type ScenarioName = (typeof scenarioNames)[number];

/** Reason for a missing figure. A missing figure is never shown as 0. */
export interface Unknown {
  readonly unknown: string;
}

/**
 * Setting as the product's documentation writes it, such as `stream_options.include_usage=true`, and the page or code that
 * describes the setting.
 */
interface Setting {
  readonly setting: string;
  readonly url: string;
}

/**
 * Every setting that differs from the product's defaults, except addresses, ports, folders and secrets. A test compares the
 * list with the adapter's code.
 */
export type Configuration = readonly Setting[];

/** Price of a model in USD for a million tokens, as decimal strings. */
export interface ModelPrice {
  readonly input: string;
  readonly output: string;
}

/** Everything that a peer receives at its start. All addresses are on loopback. */
export interface Setup {
  /** Address of the gateway, without `/v1`. The gateway serves OpenAI's interface at `/v1`. */
  readonly gatewayUrl: string;
  readonly gatewayKey: string;
  /** Hard limit of the only key in USD, as a decimal string. The budget's window does not end during a run. */
  readonly budget: string;
  /** Prices by model. The gateway serves exactly these models and charges exactly these prices. */
  readonly prices: Readonly<Record<string, ModelPrice>>;
  readonly mode: Mode;
  /** Empty folder for the peer's data and configuration. `restart` keeps what the killed process left in it. */
  readonly folder: string;
  /** Folder in which `install` put the programs. */
  readonly programs: string;
}

/** A running peer. Each scenario starts a new one with an empty ledger. */
export interface RunningPeer {
  /** Base addresses for clients, with `/v1`; several if several proxies share a ledger. They stay the same after `restart`. */
  readonly baseUrls: readonly string[];
  /** Key of the clients, sent as `authorization: Bearer KEY`. The setup's budget limits this key. */
  readonly key: string;
  /**
   * Reads the amount that the peer's own ledger records for the key, in full precision. The benchmark calls this function
   * several times, because a peer may write its ledger after the answers.
   */
  spend(): Promise<PicoUsd | Unknown>;
  /**
   * Kills the peer with SIGKILL before the function's first `await`, starts the peer again on the same data, and resolves
   * when the peer accepts requests.
   */
  restart(): Promise<void>;
  /** Ends every process of the peer by its id. */
  stop(): Promise<void>;
}

export interface Peer {
  /** Name for `--peers`: `litellm`. */
  readonly name: string;
  /** Name in the table: `LiteLLM with PostgreSQL`. */
  readonly title: string;
  readonly homepage: string;
  /** The pinned version. */
  readonly version: string;
  /** Shell commands that install this version into the folder `$PROGRAMS`. */
  readonly install: readonly string[];
  /** Returns null if exactly this version is installed in the folder; otherwise a sentence that says what is missing or differs. */
  missing(programs: string, mode: Mode): string | null;
  /** `strictest` is null if the default configuration is already the strictest. */
  readonly configurations: { readonly default: Configuration; readonly strictest: Configuration | null };
  /** Longest time between an answer and its ledger record, in milliseconds, according to the product's documentation or code. */
  readonly ledgerLagMs: number;
  /** Scenarios that the peer cannot run, each with the reason. */
  readonly unknown: Partial<Readonly<Record<ScenarioName, string>>>;
  /** Strengths of the product that this benchmark does not measure, in one or two sentences. */
  readonly strengths: string;
  /** Starts the peer. Throws an error if the peer does not accept requests within 90 seconds. */
  start(setup: Setup): Promise<RunningPeer>;
}
