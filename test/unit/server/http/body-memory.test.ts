import { describe, expect, it } from "vitest";
import { BodyAllowance, memoryWaitMs, waitingMax, type BodyMemory } from "../../../../src/server/http/body-memory.ts";
import { manualClock } from "../../../support/manual-clock.ts";

/** Creates a memory of 100 bytes. `arriving` opens a body that is still arriving, and notes when it is refused. */
function memoryOf100() {
  const clock = manualClock();
  const pool = new BodyAllowance(100, clock);
  const refused: string[] = [];
  const arriving = (name: string, bytes = 0, owner = name.slice(0, 1)): BodyMemory => {
    const body = pool.open(owner);
    body.arrives(() => {
      refused.push(name);
      body.release();
    });
    if (bytes > 0) expect(body.acquire(bytes)).toBe(true);
    return body;
  };
  return { clock, pool, refused, arriving };
}

describe("the memory for bodies", () => {
  it("gives bytes ahead only if they are free", () => {
    const { arriving } = memoryOf100();
    const body = arriving("a");
    expect(body.acquire(40, 40)).toBe(true);
    expect(body.bytes).toBe(80);
    const other = arriving("b");
    expect(other.acquire(10, 40)).toBe(true);
    expect(other.bytes).toBe(20);
    body.arrived(40);
    expect(body.bytes).toBe(40);
  });

  it("refuses the newest arriving bodies of a key above its quarter while another key waits", () => {
    const { pool, refused, arriving } = memoryOf100();
    for (const [name, bytes] of [
      ["a1", 30],
      ["a2", 30],
      ["a3", 20],
      ["a4", 20],
    ] as const)
      arriving(name, bytes);
    expect(arriving("b").acquire(30)).toBe(true);
    expect(refused).toEqual(["a4", "a3"]);
    expect(pool.bytes).toBe(90);
  });

  it("leaves a key its quarter", async () => {
    const { clock, refused, arriving } = memoryOf100();
    for (const name of ["a1", "b1", "c1", "d1"]) arriving(name, 15);
    for (const name of ["a2", "b2", "c2", "d2"]) arriving(name, 10);
    const waiting = arriving("e").acquire(10);
    expect(refused).toEqual([]);
    clock.advance(memoryWaitMs);
    expect(await waiting).toBe(false);
  });

  it("never refuses a key's only body for another key", async () => {
    const { clock, refused, arriving } = memoryOf100();
    const lone = arriving("a", 100);
    const waiting = arriving("b").acquire(1);
    expect(refused).toEqual([]);
    lone.release();
    expect(await waiting).toBe(true);
    expect(clock.waiting).toBe(0);
  });

  it("does not refuse complete bodies, but refuses what arrives next to them", () => {
    const { refused, arriving } = memoryOf100();
    arriving("a1", 50).arrived(50);
    arriving("a2", 30).arrived(30);
    arriving("a3", 20);
    expect(arriving("b").acquire(20)).toBe(true);
    expect(refused).toEqual(["a3"]);
  });

  it("lets a body wait for a bounded time, during which the key with the least memory is first", async () => {
    const { clock, arriving } = memoryOf100();
    arriving("a", 70).arrived(70);
    arriving("b1", 10).arrived(10);
    const leaving = arriving("d", 20);
    leaving.arrived(20);
    const ofB = arriving("b2").acquire(20);
    const ofC = arriving("c").acquire(20);
    leaving.release();
    clock.advance(memoryWaitMs);
    expect(await Promise.all([ofB, ofC])).toEqual([false, true]);
    expect(clock.waiting).toBe(0);
  });

  it("ends a deadlock of half-read bodies by the refusal of the one that has waited longest", async () => {
    const { clock, pool, arriving } = memoryOf100();
    const bodies = ["a", "b", "c", "d", "e"].map((name) => arriving(name, 20));
    const more = bodies.map((body) => body.acquire(5));
    clock.advance(memoryWaitMs);
    // The memory of the first one is enough for all others.
    expect(await Promise.all(more)).toEqual([false, true, true, true, true]);
    expect(pool.bytes).toBe(100);
  });

  it("takes nothing from a key for another one that would have more", async () => {
    const { clock, refused, arriving } = memoryOf100();
    for (const name of ["a1", "a2", "b1"]) arriving(name, 20);
    const grown = arriving("c", 40).acquire(1);
    expect(refused).toEqual([]);
    clock.advance(memoryWaitMs);
    expect(await grown).toBe(false);
  });

  it("refuses the newest of a key's own bodies if they would wait for each other", () => {
    const { refused, arriving } = memoryOf100();
    const [a1, a2, a3, a4] = ["a1", "a2", "a3", "a4"].map((name) => arriving(name, 25));
    expect(a2?.acquire(5)).toBe(true);
    expect(refused).toEqual(["a4"]);
    expect(a3?.acquire(20)).toBe(true);
    expect(a3?.acquire(5)).toBe(false);
    expect(refused).toEqual(["a4", "a3"]);
    expect(a1?.acquire(40)).toBe(true);
    const a5 = arriving("a5");
    expect(a5.acquire(10), "a body without memory is the newest").toBe(false);
    expect(refused).toEqual(["a4", "a3", "a5"]);
    expect([a1?.bytes, a2?.bytes, a4?.bytes]).toEqual([65, 30, 0]);
  });

  it("lets only a few bodies of a key wait", async () => {
    const { clock, arriving } = memoryOf100();
    arriving("a", 100).arrived(100);
    const waiting = Array.from({ length: waitingMax }, (_, n) => arriving(`b${n}`).acquire(1));
    expect(arriving("b").acquire(1)).toBe(false);
    expect(arriving("c").acquire(1)).toBeInstanceOf(Promise);
    clock.advance(memoryWaitMs);
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([false]));
  });

  it("does not wait for what can never fit", () => {
    const { pool, clock, arriving } = memoryOf100();
    expect(arriving("a").acquire(101)).toBe(false);
    expect([pool.bytes, clock.waiting]).toEqual([0, 0]);
  });

  it("forgets the wait of a body that leaves", async () => {
    const { pool, clock, arriving } = memoryOf100();
    const whole = arriving("a", 100);
    const leaving = arriving("b");
    const waiting = leaving.acquire(10);
    leaving.release();
    whole.release();
    expect(await waiting).toBe(false);
    expect([pool.bytes, clock.waiting]).toEqual([0, 0]);
  });

  it("counts a refused body until its process has released it, and keeps it if it had arrived before", async () => {
    const { pool, clock } = memoryOf100();
    const elsewhere = (owner: string, bytes: number) => {
      const body = pool.open(owner);
      body.arrives(() => {});
      expect(body.acquire(bytes)).toBe(true);
      return body;
    };
    const [a1, a2, a3] = [elsewhere("a", 40), elsewhere("a", 30), elsewhere("a", 30)];
    const waiting = pool.open("b");
    const acquiring = waiting.acquire(20);
    expect(a3.acquire(1), "a refused body gets nothing").toBe(false);
    a3.arrived(30);
    // Now the next body is refused.
    expect(pool.bytes).toBe(100);
    a2.release();
    expect(await acquiring).toBe(true);
    for (const body of [a1, a3, waiting]) body.release();
    expect([pool.bytes, clock.waiting]).toEqual([0, 0]);
  });

  it("counts memory without an owner for no key", () => {
    const { pool, refused, arriving } = memoryOf100();
    const shared = pool.open(null);
    expect(shared.acquire(50)).toBe(true);
    arriving("a1", 20);
    arriving("a2", 30);
    expect(shared.acquire(20)).toBe(true);
    expect(refused).toEqual(["a2"]);
    shared.release(70);
    expect(pool.bytes).toBe(20);
  });
});
