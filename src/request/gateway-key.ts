import type { Events } from "../ports/events.ts";

/** Knows if the gateway refuses the key of this proxy, by its latest answers. Reports only changes. */
export class KeyWatch {
  readonly #events: Pick<Events, "gatewayKey">;
  #isRefused = false;

  constructor(events: Pick<Events, "gatewayKey">) {
    this.#events = events;
  }

  get isRefused(): boolean {
    return this.#isRefused;
  }

  saw(isRefused: boolean): void {
    if (this.#isRefused === isRefused) return;
    this.#isRefused = isRefused;
    this.#events.gatewayKey({ isRefused });
  }
}
