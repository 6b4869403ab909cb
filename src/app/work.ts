/** Counts what is running and must be waited for before the process may end. */
export class Work {
  #running = 0;
  #waiting: (() => void)[] = [];

  add(work: Promise<void>): void {
    this.#running++;
    // Who gave the work reports its failure; here it only counts as ended.
    void work.then(this.#ended, this.#ended);
  }

  /** Resolves when nothing runs, nor anything that it started meanwhile. */
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
