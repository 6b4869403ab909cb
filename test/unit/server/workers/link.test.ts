import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { LedgerUnavailable } from "../../../../src/ports/ledger.ts";
import { Link } from "../../../../src/server/workers/link.ts";

interface PrimaryCalls {
  hello(given: null): string;
  write(text: string): number;
}

interface WorkerCalls {
  prices(version: number): void;
}

/** Returns both ends of a link. Messages arrive as soon as they are sent. */
function connected() {
  const primary: Link<WorkerCalls, PrimaryCalls> = new Link((message) => worker.receive(message));
  const worker: Link<PrimaryCalls, WorkerCalls> = new Link((message) => primary.receive(message));
  return { primary, worker };
}

describe("the link between a primary and a worker", () => {
  it("answers calls, and preserves errors such as LedgerUnavailable", async () => {
    const { primary, worker } = connected();
    primary.handle({ hello: () => "start", write: () => Promise.reject(new LedgerUnavailable("the disk is full")) });
    expect(await worker.ask("hello", null)).toBe("start");
    await expect(worker.ask("write", "a")).rejects.toThrow(LedgerUnavailable);
  });

  it("keeps calls until their handlers are added, in their order", async () => {
    const { primary, worker } = connected();
    // The price change arrives with the answer, before the worker can have a handler for it.
    primary.handle({
      hello() {
        queueMicrotask(() => queueMicrotask(() => primary.notify("prices", 2)));
        return "start";
      },
    });
    const seen: number[] = [];
    await worker.ask("hello", null);
    primary.notify("prices", 3);
    await setImmediate();
    await setImmediate();
    worker.handle({ prices: (version) => void seen.push(version) });
    expect(seen).toEqual([2, 3]);
    primary.notify("prices", 4);
    await setImmediate();
    await setImmediate();
    expect(seen).toEqual([2, 3, 4]);
  });

  it("rejects waiting calls when it closes", async () => {
    const { worker } = connected();
    const asked = worker.ask("hello", null);
    worker.close();
    await expect(asked).rejects.toThrow();
    await expect(worker.ask("hello", null)).rejects.toThrow();
  });
});
