import { messageOf } from "../../core/fault.ts";
import { LedgerUnavailable } from "../../ports/ledger.ts";

/** Calls between two processes, by name. Parameters and answers are data that can be cloned. */
export type Calls<C> = { readonly [Name in keyof C]: (given: never) => unknown };

/** Handlers of the other end's calls. */
export type Handlers<C extends Calls<C>> = {
  readonly [Name in keyof C]: (
    given: Parameters<C[Name]>[0],
  ) => ReturnType<C[Name]> | Promise<Awaited<ReturnType<C[Name]>>>;
};

/** Call or answer in a message. It is a flat array, because each object costs time. */
type Packet =
  /** `number` is 0 if no answer is expected. */
  | readonly [kind: "ask", number: number, name: string, given: unknown]
  | readonly [kind: "answer", number: number, answer: unknown]
  | readonly [kind: "failed", number: number, message: string, isLedgerUnavailable: boolean];

/** Thrown after the other end has closed. */
class LinkClosed extends Error {}

interface Waiting {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
}

/**
 * One end of the link between a primary process and a worker. Sends the calls and answers of one turn of the event loop
 * as one message. Messages arrive in the order in which they were sent. A call may be answered before an earlier call.
 */
export class Link<Theirs extends Calls<Theirs>, Ours extends Calls<Ours>> {
  readonly #send: (packets: readonly Packet[]) => void;
  #handlers: Partial<Handlers<Ours>> = {};
  /** Calls that arrived before their handlers were added. */
  #early: (readonly [number: number, name: string, given: unknown])[] = [];
  readonly #waiting = new Map<number, Waiting>();
  #numbers = 0;
  #outgoing: Packet[] = [];
  #isClosed = false;

  /** `send` passes one message to `receive` of the other end. */
  constructor(send: (message: readonly unknown[]) => void) {
    this.#send = send;
  }

  /** Adds or replaces handlers of the other end's calls. Also handles calls that arrived before they had a handler. */
  handle(handlers: Partial<Handlers<Ours>>): void {
    this.#handlers = { ...this.#handlers, ...handlers };
    for (const call of this.#early.splice(0)) void this.#serve(...call);
  }

  /** Calls the other end and returns its answer. Rejects with the other end's error, or `LinkClosed`. */
  ask<N extends keyof Theirs & string>(
    name: N,
    given: Parameters<Theirs[N]>[0],
  ): Promise<Awaited<ReturnType<Theirs[N]>>> {
    if (this.#isClosed) return Promise.reject(new LinkClosed());
    return new Promise((resolve, reject) => {
      const number = ++this.#numbers;
      this.#waiting.set(number, { resolve: resolve as Waiting["resolve"], reject });
      this.#enqueue(["ask", number, name, given]);
    });
  }

  /** Calls the other end without waiting for an answer. */
  notify<N extends keyof Theirs & string>(name: N, given: Parameters<Theirs[N]>[0]): void {
    if (!this.#isClosed) this.#enqueue(["ask", 0, name, given]);
  }

  receive(message: unknown): void {
    for (const packet of message as readonly Packet[]) {
      if (packet[0] === "ask") void this.#serve(packet[1], packet[2], packet[3]);
      else this.#endCall(packet);
    }
  }

  /** Rejects all waiting calls, because the other end has closed. */
  close(): void {
    this.#isClosed = true;
    this.#outgoing = [];
    for (const { reject } of this.#waiting.values()) reject(new LinkClosed());
    this.#waiting.clear();
  }

  async #serve(number: number, name: string, given: unknown): Promise<void> {
    const handler = (this.#handlers as Readonly<Record<string, (given: unknown) => unknown>>)[name];
    if (handler === undefined) return void this.#early.push([number, name, given]);
    try {
      const answer = await handler(given);
      if (number !== 0) this.#enqueue(["answer", number, answer]);
    } catch (error) {
      // If no answer is expected, the handler reports its own errors.
      if (number !== 0) this.#enqueue(["failed", number, messageOf(error), error instanceof LedgerUnavailable]);
    }
  }

  #endCall(packet: Exclude<Packet, readonly ["ask", ...unknown[]]>): void {
    const waiting = this.#waiting.get(packet[1]);
    this.#waiting.delete(packet[1]);
    if (packet[0] === "answer") waiting?.resolve(packet[2] as never);
    else waiting?.reject(packet[3] ? new LedgerUnavailable(packet[2]) : new Error(packet[2]));
  }

  #enqueue(packet: Packet): void {
    if (this.#isClosed) return;
    this.#outgoing.push(packet);
    if (this.#outgoing.length === 1) setImmediate(() => this.#flush());
  }

  #flush(): void {
    const packets = this.#outgoing;
    this.#outgoing = [];
    if (packets.length > 0) this.#send(packets);
  }
}
