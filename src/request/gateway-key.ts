import type { Events } from "../ports/events.ts";

/** Stores whether the gateway refuses the key of this proxy, as its latest answer says. Reports only changes. */
export class KeyWatch {
  readonly #events: Pick<Events, "gatewayKey">;
  #isRefused = false;

  constructor(events: Pick<Events, "gatewayKey">) {
    this.#events = events;
  }

  get isRefused(): boolean {
    return this.#isRefused;
  }

  setRefused(isRefused: boolean): void {
    if (this.#isRefused === isRefused) return;
    this.#isRefused = isRefused;
    this.#events.gatewayKey({ isRefused });
  }
}
