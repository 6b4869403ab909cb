import { LedgerUnavailable } from "../../ports/ledger.ts";

/** Calls over a line by their names. What is given and what is answered are data that can be cloned. */
export type Calls<C> = { readonly [Name in keyof C]: (given: never) => unknown };

/** Handlers of the other end's calls. */
export type Handlers<C extends Calls<C>> = {
  readonly [Name in keyof C]: (
    given: Parameters<C[Name]>[0],
  ) => ReturnType<C[Name]> | Promise<Awaited<ReturnType<C[Name]>>>;
};

/** A part of a message. It is flat because each object costs time. */
type Packet =
  /** `number` is 0 where no answer is wanted. */
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
 * One end of the line between a primary process and a worker. Calls of one turn of the event loop are sent as one message.
 * Messages arrive in the order in which they were sent; their answers in any.
 */
export class Link<Theirs extends Calls<Theirs>, Ours extends Calls<Ours>> {
  readonly #send: (packets: readonly Packet[]) => void;
  readonly #handlers: Handlers<Ours>;
  readonly #waiting = new Map<number, Waiting>();
  #numbers = 0;
  #outgoing: Packet[] = [];
  #isClosed = false;

  /** `send` takes one message to `receive` of the other end. */
  constructor(send: (message: readonly unknown[]) => void, handlers: Handlers<Ours>) {
    this.#send = send;
    this.#handlers = handlers;
  }

  /** Rejects with the other end's error, or `LinkClosed`. */
  ask<N extends keyof Theirs & string>(
    name: N,
    given: Parameters<Theirs[N]>[0],
  ): Promise<Awaited<ReturnType<Theirs[N]>>> {
    if (this.#isClosed) return Promise.reject(new LinkClosed());
    return new Promise((resolve, reject) => {
      const number = ++this.#numbers;
      this.#waiting.set(number, { resolve: resolve as Waiting["resolve"], reject });
      this.#put(["ask", number, name, given]);
    });
  }

  /** Like `ask`, without an answer. */
  notify<N extends keyof Theirs & string>(name: N, given: Parameters<Theirs[N]>[0]): void {
    if (!this.#isClosed) this.#put(["ask", 0, name, given]);
  }

  receive(message: unknown): void {
    for (const packet of message as readonly Packet[]) {
      if (packet[0] === "ask") void this.#serve(packet[1], packet[2], packet[3]);
      else this.#conclude(packet);
    }
  }

  /** Rejects every call that waits for the other end, which has gone. */
  close(): void {
    this.#isClosed = true;
    this.#outgoing = [];
    for (const { reject } of this.#waiting.values()) reject(new LinkClosed());
    this.#waiting.clear();
  }

  async #serve(number: number, name: string, given: unknown): Promise<void> {
    try {
      const answer = await (this.#handlers as Readonly<Record<string, (given: unknown) => unknown>>)[name]?.(given);
      if (number !== 0) this.#put(["answer", number, answer]);
    } catch (error) {
      // Where no one waits, a handler reports its own errors.
      if (number !== 0)
        this.#put([
          "failed",
          number,
          error instanceof Error ? error.message : String(error),
          error instanceof LedgerUnavailable,
        ]);
    }
  }

  #conclude(packet: Exclude<Packet, readonly ["ask", ...unknown[]]>): void {
    const waiting = this.#waiting.get(packet[1]);
    this.#waiting.delete(packet[1]);
    if (packet[0] === "answer") waiting?.resolve(packet[2] as never);
    else waiting?.reject(packet[3] ? new LedgerUnavailable(packet[2]) : new Error(packet[2]));
  }

  #put(packet: Packet): void {
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
