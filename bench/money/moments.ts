import { usd } from "../../src/core/money.ts";
import { prices } from "./scenarios.ts";
import type { ScenarioName } from "./peer.ts";
import type { Figures } from "./result.ts";

type KillName = Extract<ScenarioName, "kill-during-holds" | "kill-during-answers" | "kill-after-answers">;

interface Progress {
  readonly of: number;
  /** Returns the progress that a run recorded at the kill. */
  readonly recorded: (atKill: NonNullable<Figures["atKill"]>) => number;
  /** Estimates the progress of a run that recorded none, from the bill or the clients' results. */
  readonly derived: (figures: Figures, billed: bigint) => number;
}

const clients = 60;
const output = usd(prices["gpt-4o"]?.output ?? "") / 1_000_000n;
const promptCost = usd("0.00005");
const requestCost = usd("0.00055");

const progress: Readonly<Record<KillName, Progress>> = {
  "kill-during-holds": {
    of: clients,
    recorded: ({ requests }) => requests,
    derived: (_, billed) => Number(billed / requestCost),
  },
  "kill-during-answers": {
    of: clients * 50,
    recorded: ({ deltas }) => deltas,
    derived: (_, billed) => Number((billed - BigInt(clients) * promptCost) / output),
  },
  "kill-after-answers": {
    of: clients,
    recorded: ({ ended }) => ended,
    derived: ({ told }) => clients - (told["no answer"] ?? 0) - (told["200, then the connection broke"] ?? 0),
  },
};

/** Formats the progress of the first 60 requests at the kill: `31 of 60`, or `about 31 of 60` if the run did not record it. */
export function momentOf(name: ScenarioName, figures: Figures): string {
  const { of, recorded, derived } = progress[name as KillName];
  const total = of.toLocaleString("en-US");
  if (figures.atKill !== undefined) return `${recorded(figures.atKill).toLocaleString("en-US")} of ${total}`;
  const about = derived(figures, usd(figures.checkpoint?.billedUsd ?? "0"));
  return `about ${about.toLocaleString("en-US")} of ${total}`;
}
