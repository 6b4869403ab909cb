/** What is running and must be waited for before the process may end. */
export class Work {
  readonly #running = new Set<Promise<void>>();

  add(work: Promise<void>): void {
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }

  /** Resolves when nothing runs, nor anything that it started meanwhile. */
  async done(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }
}
