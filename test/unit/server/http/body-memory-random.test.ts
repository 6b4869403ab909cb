import * as fc from "fast-check";
import { expect, it } from "vitest";
import {
  BodyAllowance,
  memoryWaitMs,
  type BodyMemory,
  type BodyPool,
} from "../../../../src/server/http/body-memory.ts";
import { Link } from "../../../../src/server/workers/link.ts";
import type { PrimaryCalls, PrimaryLink, WorkerCalls } from "../../../../src/server/workers/protocol.ts";
import { WorkerBodyPool } from "../../../../src/server/workers/remote.ts";
import { WorkerHandler, type WorkerHandlerDeps } from "../../../../src/server/workers/worker-handler.ts";
import { runs } from "../../../support/effort.ts";
import { manualClock } from "../../../support/manual-clock.ts";

const bytesMax = 1_000_000;
/** Largest body. */
const bodyMax = 600_000;

interface Plan {
  readonly owner: string | null;
  /** Pieces in which the body arrives, in bytes. */
  readonly pieces: readonly number[];
  /** Pieces of the decoded body; null for a body without an encoding. */
  readonly decoded: readonly number[] | null;
  readonly arrivedWithHead: boolean;
}

/** Body that is read as `readBody` does. Each `step` lets it continue up to the next one. */
class ReadBody {
  readonly ended: Promise<void>;
  isOver = false;
  readonly #memory: BodyMemory;
  #continue: (() => void) | null = null;
  #hasLeft = false;

  constructor(pool: BodyPool, plan: Plan) {
    this.#memory = pool.open(plan.owner);
    this.ended = this.#read(plan).finally(() => {
      this.#memory.release();
      this.isOver = true;
    });
  }

  /** Bytes that the body occupies by its memory's account. */
  get bytes(): number {
    return this.#memory.bytes;
  }

  step(): void {
    const resume = this.#continue;
    this.#continue = null;
    resume?.();
  }

  /** The client disconnects. */
  leave(): void {
    this.#hasLeft = true;
    this.#memory.release();
    this.step();
  }

  async #read({ pieces, decoded, arrivedWithHead }: Plan): Promise<void> {
    const memory = this.#memory;
    const refuse = (): void => {
      this.#hasLeft = true;
      memory.release();
    };
    if (!arrivedWithHead || decoded !== null) memory.arrives(refuse);
    const size = await this.#take(pieces, 0);
    if (size === null) return;
    if (decoded === null) memory.arrived(size);
    await this.#turn();
    if (this.#hasLeft) return;
    if (decoded !== null) {
      memory.arrives(refuse);
      const all = await this.#take(decoded, size);
      if (all === null) return;
      // Now only the decoded form is kept.
      memory.arrived(all - size);
      await this.#turn();
    }
  }

  /** Acquires memory for each piece. Returns the size of all with `before`; null if the body has ended. */
  async #take(pieces: readonly number[], before: number): Promise<number | null> {
    const memory = this.#memory;
    let size = before;
    for (const piece of pieces) {
      await this.#turn();
      if (this.#hasLeft) return null;
      size += piece;
      if (size <= memory.bytes) continue;
      if (!(await memory.acquire(size - memory.bytes, Math.min(size, bodyMax)))) return null;
      if (this.#hasLeft) return null;
      expect(memory.bytes).toBeGreaterThanOrEqual(size);
    }
    return size;
  }

  #turn(): Promise<void> {
    return new Promise((resolve) => (this.#continue = resolve));
  }
}

const piecesOf = (bytes: number) =>
  fc
    .array(fc.oneof(fc.integer({ min: 1, max: 2_000 }), fc.integer({ min: 1, max: bytes })), { maxLength: 6 })
    .map((pieces) => {
      let left = bytes;
      return pieces.filter((piece) => (left -= piece) >= 0);
    });
const plans: fc.Arbitrary<Plan> = fc.record({
  owner: fc.constantFrom("a", "a", "a", "b", "c", "", null),
  pieces: piecesOf(bodyMax / 2),
  decoded: fc.option(piecesOf(bodyMax / 2), { freq: 3 }),
  arrivedWithHead: fc.boolean(),
});
/** Events in random order: the number of a body, and what happens. */
const events = fc.array(
  fc.tuple(fc.nat(), fc.constantFrom("step", "step", "step", "step", "step", "wait", "leave", "wait long")),
  { minLength: 20, maxLength: 250 },
);

/** Lets the messages between processes arrive. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 4; turns++) await new Promise(setImmediate);
}

const given = fc.tuple(fc.array(plans, { minLength: 1, maxLength: 24 }), events);

async function play(
  pool: BodyAllowance,
  clock: ReturnType<typeof manualClock>,
  bodies: readonly ReadBody[],
  happening: readonly (readonly [number: number, event: string])[],
  arrive: () => Promise<void>,
): Promise<void> {
  const check = (): void => {
    expect(pool.bytes).toBeGreaterThanOrEqual(0);
    expect(pool.bytes).toBeLessThanOrEqual(bytesMax);
  };
  for (const [number, event] of happening) {
    const body = bodies[number % bodies.length];
    if (event === "step") body?.step();
    else if (event === "leave") body?.leave();
    else clock.advance(event === "wait" ? memoryWaitMs / 5 : memoryWaitMs);
    await arrive();
    check();
  }
  for (let rounds = 0; bodies.some(({ isOver }) => !isOver); rounds++) {
    expect(rounds, "no body waits forever").toBeLessThan(200);
    for (const body of bodies) body.step();
    await arrive();
    clock.advance(memoryWaitMs);
    await arrive();
    check();
  }
  await Promise.all(bodies.map(({ ended }) => ended));
}

it("the memory for bodies is never exceeded, and free once all have ended", async () => {
  await fc.assert(
    fc.asyncProperty(given, async ([plan, happening]) => {
      const clock = manualClock();
      const pool = new BodyAllowance(bytesMax, clock);
      const bodies = plan.map((each) => new ReadBody(pool, each));
      await play(pool, clock, bodies, happening, async () => {
        for (let turns = 0; turns < 4; turns++) await Promise.resolve();
        expect(pool.bytes).toBe(bodies.reduce((sum, { bytes }) => sum + bytes, 0));
      });
      expect([pool.bytes, clock.waiting]).toEqual([0, 0]);
    }),
    { numRuns: runs(1_000) },
  );
});

it("workers share the memory for bodies, and keep only their spare memory", async () => {
  await fc.assert(
    fc.asyncProperty(given, async ([plan, happening]) => {
      const clock = manualClock();
      const pool = new BodyAllowance(bytesMax, clock);
      const workers = [1, 2].map(() => workerOf(pool));
      const bodies = plan.map((each, index) => new ReadBody(workers[index % 2]?.pool ?? pool, each));
      await play(pool, clock, bodies, happening, async () => {
        await settled();
        expect(bodies.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(pool.bytes);
      });
      await settled();
      expect(pool.bytes).toBeLessThanOrEqual(bytesMax / 8 + bytesMax / 16);
      expect(workers.map((worker) => worker.pool.sharedBytes)).toEqual([0, 0]);
      for (const { handler } of workers) await handler.close();
      expect([pool.bytes, clock.waiting]).toEqual([0, 0]);
    }),
    { numRuns: runs(300) },
  );
});

/** Returns the pool of a worker, and the primary's handler of its calls. */
function workerOf(bodyMemory: BodyAllowance) {
  const ofPrimary = new Link<WorkerCalls, PrimaryCalls>((message) => ofWorker.receive(message));
  const ofWorker: PrimaryLink = new Link<PrimaryCalls, WorkerCalls>((message) => ofPrimary.receive(message));
  const deps = { bodyMemory, store: {}, shared: {}, lost: () => undefined };
  const handler = new WorkerHandler(deps as unknown as WorkerHandlerDeps, ofPrimary);
  ofPrimary.handle(handler.handlers);
  const pool = new WorkerBodyPool(ofWorker, { bodyMemoryBytesMax: bytesMax, bodyBytesMax: bodyMax }, 2);
  ofWorker.handle({ refuseBody: (id) => pool.refuse(id) });
  return { pool, handler };
}
