import type { SendResult, WebhookRequest, WebhookSender } from "../src/ports/webhook-sender.ts";
import { outside, type Owner, type World } from "./world.ts";

interface ReceiverDeps {
  readonly world: World;
  /** Returns the probability that the receiver refuses a message. The loss of its answer has the same probability. */
  readonly failing: () => number;
  /** Called when a message is sent. */
  readonly onSend: (messageId: string) => void;
}

/** Receiver of webhooks. It outlives every crash of the proxy. */
export class Receiver {
  readonly #deps: ReceiverDeps;
  /** Number of times each message was received, by its id. */
  readonly received = new Map<string, number>();

  constructor(deps: ReceiverDeps) {
    this.#deps = deps;
  }

  /** Returns the sender that one run of the proxy uses. */
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
        world.note("messages in flight are aborted");
        for (const resolve of sending) resolve(undefined);
      },
    };
  }

  #send(owner: Owner, request: WebhookRequest, resolve: (result: SendResult) => void): void {
    const { world, failing, onSend } = this.#deps;
    const id = request.headers["webhook-id"] ?? "";
    onSend(id);
    world.soon(outside, `message ${id} is received`, () => {
      const isAccepted = !world.chance.happens(failing());
      if (isAccepted) this.received.set(id, (this.received.get(id) ?? 0) + 1);
      const isAnswered = !world.chance.happens(failing());
      const result: SendResult =
        isAccepted && isAnswered ? { ok: true } : { ok: false, error: "simulated", retryAfterMs: null };
      world.soon(owner, `message ${id} is ${result.ok ? "acknowledged" : "not acknowledged"}`, () => resolve(result));
    });
  }
}
