/** What is running and must be waited for before the process may end. */
export class Work {
  readonly #running = new Set<Promise<void>>();

  add(work: Promise<void>): void {
    // Who gave the work reports its failure; here it only counts as ended.
    const tracked = work.catch(() => undefined);
    this.#running.add(tracked);
    void tracked.then(() => this.#running.delete(tracked));
  }

  /** Resolves when nothing runs, nor anything that it started meanwhile. */
  async done(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }
}
