import { invariant } from "../../core/assert.ts";
import type { Clock, Timer } from "../../ports/clock.ts";

/** Memory that the bodies of all requests share. Each key's part of it is counted. */
export interface BodyPool {
  /**
   * Opens the account of one body. `owner`: id of the key, "" for a client without a key. Null for memory that counts
   * for no key: small bodies of Farebox's own paths.
   */
  open(owner: string | null): BodyMemory;
}

/** Memory of one body. */
export interface BodyMemory {
  readonly owner: string | null;
  /** Number of bytes that the body has acquired. */
  readonly bytes: number;
  /**
   * Acquires this number of bytes, and up to `ahead` bytes in addition if they are free. If memory is short, waits for
   * at most `memoryWaitMs`. Returns false if no memory became free; an arriving body then has released all its memory.
   * Returns a promise only if it waits, or if another process must be asked.
   */
  acquire(bytes: number, ahead?: number): boolean | Promise<boolean>;
  /** Releases a part of the memory. Without a number, releases all of it and ends a wait for more. */
  release(bytes?: number): void;
  /**
   * Marks the body as arriving. If its key has more than a quarter of all memory while others wait, `onRefused` may be
   * called. The body must then release its memory.
   */
  arrives(onRefused: () => void): void;
  /** Marks the body as complete, and releases all but `bytes`. From now on it keeps its memory until it releases it. */
  arrived(bytes: number): void;
}

/** Longest time for which a body waits for memory, in milliseconds. Farebox does not read from its client meanwhile. */
export const memoryWaitMs = 5_000;

/** Largest number of waiting bodies of a key. Each keeps what has arrived of it meanwhile, up to 64 kB. */
export const waitingMax = 16;

/** Part of the memory that a key may have while others wait. */
const shareOfKey = 0.25;

/** Key with bodies in memory. */
interface Owner {
  readonly name: string | null;
  bytes: number;
  /** Number of bodies with memory. */
  bodies: number;
  /** Bodies with memory that are still arriving, oldest first. */
  readonly arriving: Set<Body>;
  waiting: number;
}

interface Waiter {
  readonly body: Body;
  readonly owner: Owner;
  readonly bytes: number;
  readonly resolve: (isAcquired: boolean) => void;
  timer: Timer | null;
  /** Undefined while the body waits. */
  result: boolean | undefined;
}

/**
 * Memory of a fixed size, counted in this process. If it is full, bodies wait, and the key with the least memory is
 * served first. For it, the newest arriving bodies of the key with the most memory are refused, as long as that key has
 * more than a quarter of all memory. A key's only body is never refused for this. If the arriving bodies
 * of the waiting key itself have more than a quarter, the newest of them is refused, so that the others can be completed.
 */
export class BodyAllowance implements BodyPool {
  readonly #bytesMax: number;
  readonly #clock: Clock;
  /** Bytes that a key may have while others wait. */
  readonly #share: number;
  readonly #owners = new Map<string, Owner>();
  readonly #waiting = new Set<Waiter>();
  #bytes = 0;
  /** Memory of refused bodies that is not released yet. */
  #leavingBytes = 0;
  #isSettling = false;

  constructor(bytesMax: number, clock: Clock) {
    this.#bytesMax = bytesMax;
    this.#clock = clock;
    this.#share = bytesMax * shareOfKey;
  }

  open(owner: string | null): BodyMemory {
    return new Body(this, owner);
  }

  /** Number of acquired bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  acquire(body: Body, bytes: number, ahead: number): boolean | Promise<boolean> {
    if (body.isRefused) return false;
    const room = this.#bytesMax - this.#bytes;
    if (this.#waiting.size > 0 || bytes > room) return this.#wait(body, bytes);
    this.#add(body, this.#ownerOf(body), Math.min(bytes + ahead, room));
    return true;
  }

  /** Releases all memory of a body. If the body waits, its wait ends. */
  releaseAll(body: Body): void {
    this.#endWaits(body);
    this.release(body, body.bytes);
  }

  release(body: Body, bytes: number): void {
    if (bytes === 0) return;
    const owner = this.#ownerOf(body);
    body.bytes -= bytes;
    this.#bytes -= bytes;
    if (body.isRefused) this.#leavingBytes -= bytes;
    else owner.bytes -= bytes;
    if (body.bytes === 0) {
      if (!body.isRefused) owner.bodies--;
      owner.arriving.delete(body);
      body.isRefused = false;
      this.#forgetIfUnused(owner);
    }
    this.#settle();
  }

  arrives(body: Body): void {
    if (body.bytes > 0) this.#ownerOf(body).arriving.add(body);
  }

  arrived(body: Body): void {
    const owner = this.#ownerOf(body);
    body.onRefused = null;
    owner.arriving.delete(body);
    if (body.isRefused) {
      // The body was complete before its refusal reached the process that reads it.
      body.isRefused = false;
      this.#leavingBytes -= body.bytes;
      owner.bytes += body.bytes;
      owner.bodies++;
      this.#settle();
    }
    this.#forgetIfUnused(owner);
  }

  #ownerOf({ owner: name }: Body): Owner {
    const known = name === null ? undefined : this.#owners.get(name);
    if (known !== undefined) return known;
    const owner: Owner = { name, bytes: 0, bodies: 0, arriving: new Set(), waiting: 0 };
    if (name !== null) this.#owners.set(name, owner);
    return owner;
  }

  #forgetIfUnused({ name, bodies, waiting }: Owner): void {
    if (name !== null && bodies === 0 && waiting === 0) this.#owners.delete(name);
  }

  #add(body: Body, owner: Owner, bytes: number): void {
    if (body.bytes === 0) owner.bodies++;
    body.bytes += bytes;
    owner.bytes += bytes;
    this.#bytes += bytes;
    if (body.onRefused !== null) owner.arriving.add(body);
  }

  #wait(body: Body, bytes: number): boolean | Promise<boolean> {
    const owner = this.#ownerOf(body);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiter: Waiter = { body, owner, bytes, resolve, timer: null, result: undefined };
    owner.waiting++;
    this.#waiting.add(waiter);
    const mayWait = bytes <= this.#bytesMax && (owner.name === null || owner.waiting <= waitingMax);
    if (bytes <= this.#bytesMax) this.#settle();
    if (waiter.result === undefined && !mayWait) this.#refuseWaiter(waiter);
    if (waiter.result !== undefined) return waiter.result;
    waiter.timer = this.#clock.after(memoryWaitMs, () => this.#refuseWaiter(waiter));
    return promise;
  }

  #refuseWaiter(waiter: Waiter): void {
    const { body } = waiter;
    this.#end(waiter, false);
    if (body.onRefused !== null) body.release();
  }

  #end(waiter: Waiter, isAcquired: boolean): void {
    const { body, owner, bytes } = waiter;
    this.#waiting.delete(waiter);
    owner.waiting--;
    waiter.timer?.cancel();
    if (isAcquired) this.#add(body, owner, bytes);
    waiter.result = isAcquired;
    waiter.resolve(isAcquired);
    this.#forgetIfUnused(owner);
  }

  #endWaits(body: Body): void {
    for (const waiter of this.#waiting) if (waiter.body === body) this.#end(waiter, false);
  }

  /** Gives memory to the bodies that wait, as far as there is any. */
  #settle(): void {
    if (this.#isSettling) return;
    this.#isSettling = true;
    for (let next = this.#nextWaiter(); next !== undefined; next = this.#nextWaiter()) {
      const missing = this.#bytes + next.bytes - this.#bytesMax;
      if (missing <= 0) this.#end(next, true);
      else if (missing <= this.#leavingBytes || !this.#refuseOneFor(next)) break;
    }
    this.#isSettling = false;
  }

  #nextWaiter(): Waiter | undefined {
    let next: Waiter | undefined;
    for (const waiter of this.#waiting) {
      if (next === undefined || usedBy(waiter.owner) < usedBy(next.owner)) next = waiter;
    }
    return next;
  }

  /** Refuses one body so that a waiting one gets memory. Returns false if no key has too much. */
  #refuseOneFor(waiter: Waiter): boolean {
    const most = this.#ownerWithMost(waiter.owner);
    const least = Math.max(this.#share, usedBy(waiter.owner) + waiter.bytes);
    if (most !== undefined && most.bytes > least) return this.#refuseNewest(most);
    // Otherwise the bodies of a single key would wait for each other.
    const { owner, body } = waiter;
    const others = owner.arriving.size - (body.bytes > 0 ? 1 : 0);
    if (owner.name === null || others === 0 || arrivingBytes(owner) <= this.#share) return false;
    if (body.bytes > 0 || body.onRefused === null) return this.#refuseNewest(owner);
    // A body without memory is the newest.
    body.onRefused();
    this.#end(waiter, false);
    return true;
  }

  /** Returns the key with the most memory, except `waiting`, among those with an arriving body next to another one. */
  #ownerWithMost(waiting: Owner): Owner | undefined {
    let most: Owner | undefined;
    for (const owner of this.#owners.values()) {
      if (owner === waiting || owner.bodies < 2 || owner.arriving.size === 0) continue;
      if (most === undefined || owner.bytes > most.bytes) most = owner;
    }
    return most;
  }

  #refuseNewest(owner: Owner): true {
    const body = [...owner.arriving].at(-1);
    invariant(body !== undefined, "the key has an arriving body");
    body.isRefused = true;
    owner.arriving.delete(body);
    owner.bodies--;
    owner.bytes -= body.bytes;
    this.#leavingBytes += body.bytes;
    this.#endWaits(body);
    body.onRefused?.();
    return true;
  }
}

function arrivingBytes({ arriving }: Owner): number {
  return [...arriving].reduce((sum, { bytes }) => sum + bytes, 0);
}

function usedBy({ name, bytes }: Owner): number {
  return name === null ? 0 : bytes;
}

class Body implements BodyMemory {
  readonly owner: string | null;
  readonly #pool: BodyAllowance;
  bytes = 0;
  onRefused: (() => void) | null = null;
  /** True from its refusal until its memory is released. */
  isRefused = false;

  constructor(pool: BodyAllowance, owner: string | null) {
    this.#pool = pool;
    this.owner = owner;
  }

  acquire(bytes: number, ahead = 0): boolean | Promise<boolean> {
    return this.#pool.acquire(this, bytes, ahead);
  }

  release(bytes?: number): void {
    if (bytes !== undefined) return this.#pool.release(this, bytes);
    this.#pool.releaseAll(this);
    this.onRefused = null;
  }

  arrives(onRefused: () => void): void {
    this.onRefused = onRefused;
    this.#pool.arrives(this);
  }

  arrived(bytes: number): void {
    if (this.onRefused !== null) this.#pool.arrived(this);
    if (this.bytes > bytes) this.#pool.release(this, this.bytes - bytes);
  }
}
