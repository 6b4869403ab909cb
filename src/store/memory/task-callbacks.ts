import type { TaskCallback, TaskCallbacks } from "../../ports/task-callbacks.ts";
import type { MemoryState } from "./state.ts";

export class MemoryTaskCallbacks implements TaskCallbacks {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async put(callback: TaskCallback): Promise<boolean> {
    this.#state.callbacks.set(callback.charge, callback);
    return true;
  }

  async byDigest(digest: string): Promise<TaskCallback | undefined> {
    return this.#state.callbacks.values().find((callback) => callback.digest === digest);
  }

  async byCharge(charge: string): Promise<TaskCallback | undefined> {
    return this.#state.callbacks.get(charge);
  }
}
