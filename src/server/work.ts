/** Counts work in progress that the process must wait for before it ends. */
export class Work {
  #running = 0;
  #waiting: (() => void)[] = [];

  add(work: Promise<void>): void {
    this.#running++;
    // The caller reports a failure; here it only counts as ended.
    void work.then(this.#ended, this.#ended);
  }

  /** Resolves when no work is left, including work that was started meanwhile. */
  async done(): Promise<void> {
    while (this.#running > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  readonly #ended = (): void => {
    this.#running--;
    if (this.#running > 0) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  };
}
