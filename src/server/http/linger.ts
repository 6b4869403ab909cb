import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../ports/clock.ts";

/** Bounds of what is read past after a refusal: a client that writes on for longer sees its connection reset. */
export const lingering = { ms: 30_000, quietMs: 5_000, bytes: 256 * 1024 ** 2, checkMs: 1_000 } as const;

const lingeringSockets = new WeakSet<Socket>();

/** True for a connection whose last answer was sent: a request that follows on it is not answered. */
export function isLingering(socket: Socket): boolean {
  return lingeringSockets.has(socket);
}

/**
 * Lets a refused client read its answer while it still writes: when the answer has been sent, our side of the connection is
 * closed and the rest of the body is read past. To close with unread bytes would reset the connection, and a client that
 * writes first would see EPIPE and no answer. Call before the answer ends, so that Node closes the connection.
 */
export function lingerAfterAnswer(request: IncomingMessage, clock: Clock): void {
  const { socket } = request;
  // Node calls this when the last answer of a connection has been handed to the system.
  socket.destroySoon = () => {
    delete (socket as Partial<Socket>).destroySoon;
    lingeringSockets.add(socket);
    socket.end();
    if (request.complete || request.destroyed) return void socket.destroySoon();
    // Clients that read have their refusal.
    request.removeAllListeners("data");
    request.resume();
    request.once("end", () => socket.destroySoon());
    const stop = watchRest(socket, clock);
    socket.once("close", stop);
  };
}

/** Ends the connection at the first bound that is reached; returns how to stop watching. */
function watchRest(socket: Socket, clock: Clock): () => void {
  const start = socket.bytesRead;
  let last = start;
  let quietMs = 0;
  let totalMs = 0;
  let timer = clock.after(lingering.checkMs, check);
  function check(): void {
    quietMs = socket.bytesRead === last ? quietMs + lingering.checkMs : 0;
    last = socket.bytesRead;
    totalMs += lingering.checkMs;
    if (quietMs >= lingering.quietMs || totalMs >= lingering.ms || last - start > lingering.bytes) socket.destroy();
    else timer = clock.after(lingering.checkMs, check);
  }
  return () => timer.cancel();
}
