import type { SendResult, WebhookRequest, WebhookSender } from "../src/ports/webhook-sender.ts";
import { outside, type Owner, type World } from "./world.ts";

export interface ReceiverDeps {
  readonly world: World;
  /** Probability that it refuses a message, or that its answer is lost. */
  readonly failing: () => number;
  /** A message is being sent. */
  readonly onSend: (messageId: string) => void;
}

/** Receiver of webhooks. It outlives every crash of the proxy. */
export class Receiver {
  readonly #deps: ReceiverDeps;
  /** By message, how often it came. */
  readonly received = new Map<string, number>();

  constructor(deps: ReceiverDeps) {
    this.#deps = deps;
  }

  /** The way to it from one run of the proxy. */
  sender(owner: Owner): WebhookSender {
    const { world } = this.#deps;
    const sending = new Set<(result: undefined) => void>();
    return {
      send: (request) =>
        new Promise<SendResult | undefined>((resolve) => {
          sending.add(resolve);
          this.#send(owner, request, resolve);
        }),
      async [Symbol.asyncDispose]() {
        world.note("what is being sent is broken off");
        for (const resolve of sending) resolve(undefined);
      },
    };
  }

  #send(owner: Owner, request: WebhookRequest, resolve: (result: SendResult) => void): void {
    const { world, failing, onSend } = this.#deps;
    const id = request.headers["webhook-id"] ?? "";
    onSend(id);
    world.soon(outside, `message ${id} is received`, () => {
      const isTaken = !world.chance.happens(failing());
      if (isTaken) this.received.set(id, (this.received.get(id) ?? 0) + 1);
      const isHeard = !world.chance.happens(failing());
      const result: SendResult =
        isTaken && isHeard ? { ok: true } : { ok: false, error: "simulated", retryAfterMs: null };
      world.soon(owner, `message ${id} is ${result.ok ? "acknowledged" : "not acknowledged"}`, () => resolve(result));
    });
  }
}
