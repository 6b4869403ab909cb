import type { ChargedKey } from "../../ports/events.ts";
import { BoundedLabel, other } from "./labels.ts";
import { teamsMax } from "./limits.ts";

/** Chooses the keys and teams that have a name in the metrics: the same ones in counters and in gauges of the ledger. */
export class KeyNames {
  readonly #keys: BoundedLabel;
  /** A key that moves from team to team has series for each; beyond these it is `other` too. */
  readonly #pairs: BoundedLabel;
  readonly #teams = new BoundedLabel(teamsMax);

  constructor(keysMax: number) {
    this.#keys = new BoundedLabel(keysMax);
    this.#pairs = new BoundedLabel(2 * keysMax);
  }

  key(name: string): string {
    return this.#keys.of(name);
  }

  /** "" for none. */
  team(name: string | null): string {
    return name === null ? "" : this.#teams.of(name);
  }

  /** The labels `key` and `team` of a charge; both are empty for a request without a key. */
  labelsOf(key: ChargedKey | null): readonly [key: string, team: string] {
    if (key === null) return ["", ""];
    if (this.key(key.name) === other || this.#pairs.of(`${key.name}\n${key.team ?? ""}`) === other) return [other, ""];
    return [key.name, this.team(key.team)];
  }
}
