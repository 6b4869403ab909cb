import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

/**
 * Counts the bytes inside a proxy of this process, between its clients and its gateway. Counts only connections that
 * are made during its life, and no bytes in buffers of the operating system, whose size depends on the machine.
 */
export class PassingBytes implements Disposable {
  readonly #proxyPort: number;
  readonly #gatewayPort: number;
  readonly #accepted: Socket[] = [];
  readonly #connected: Socket[] = [];
  readonly #onAccepted = (message: unknown) => void this.#accepted.push((message as { socket: Socket }).socket);
  readonly #onConnected = (message: unknown) => void this.#connected.push((message as { socket: Socket }).socket);

  constructor(proxyUrl: string | null, gatewayUrl: string) {
    this.#proxyPort = proxyUrl === null ? -1 : Number(new URL(proxyUrl).port);
    this.#gatewayPort = Number(new URL(gatewayUrl).port);
    subscribe("net.server.socket", this.#onAccepted);
    subscribe("net.client.socket", this.#onConnected);
  }

  /** Bytes for the gateway that the operating system has accepted. */
  get sent(): number {
    return passed(this.#gateways);
  }

  /** Bytes that the proxy has read from its clients and not yet passed to its gateway. */
  get upward(): number {
    return read(this.#clients) - this.sent;
  }

  /** Bytes that the proxy has read from its gateway and not yet passed to its clients. */
  get downward(): number {
    return read(this.#gateways) - passed(this.#clients);
  }

  get #clients(): readonly Socket[] {
    return this.#accepted.filter(({ localPort }) => localPort === this.#proxyPort);
  }

  get #gateways(): readonly Socket[] {
    return this.#connected.filter(({ remotePort }) => remotePort === this.#gatewayPort);
  }

  [Symbol.dispose](): void {
    unsubscribe("net.server.socket", this.#onAccepted);
    unsubscribe("net.client.socket", this.#onConnected);
  }
}

function read(sockets: readonly Socket[]): number {
  return sockets.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
}

/** Returns the number of bytes that the operating system has accepted. */
function passed(sockets: readonly Socket[]): number {
  return sockets.reduce((sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength, 0);
}
