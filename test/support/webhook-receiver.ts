import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Secret that signs the messages of a test. */
export const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** Verifies the signature as a receiver does, with only what the documentation says. */
export function isSigned({ headers, body }: Received): boolean {
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = createHmac("sha256", Buffer.from(webhookSecret.replace("whsec_", ""), "base64"))
    .update(signed)
    .digest("base64");
  return headers["webhook-signature"] === `v1,${expected}`;
}

/** Returns the alert in a message. */
export const alertIn = ({ body }: Received) =>
  JSON.parse(body) as { id: string; type: string; text: string; data: Record<string, unknown> };

/** A real server that receives webhooks. */
export interface WebhookReceiver extends AsyncDisposable {
  /** "http://127.0.0.1:43210" */
  readonly url: string;
  readonly received: readonly Received[];
  /** Sets how the next messages are answered; status 200 by default. */
  answer(how: (response: ServerResponse, received: Received) => void): void;
  /** Resolves with all messages once this number has arrived. */
  waitFor(count: number): Promise<readonly Received[]>;
}

export const status =
  (code: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    void response.writeHead(code, headers).end("unread answer");

export async function startReceiver(): Promise<WebhookReceiver> {
  const received: Received[] = [];
  const watchers = new Set<() => void>();
  let how: (response: ServerResponse, received: Received) => void = status(200);
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const one = { path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() };
    received.push(one);
    how(response, one);
    for (const watcher of watchers) watcher();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    answer: (next) => void (how = next),
    waitFor: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (received.length < count) return;
          watchers.delete(check);
          resolve(received);
        };
        watchers.add(check);
        check();
      }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
