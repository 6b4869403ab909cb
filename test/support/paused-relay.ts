import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A relay in front of the gateway that accepts connections and passes no byte until it is opened. */
export interface PausedRelay extends AsyncDisposable {
  readonly url: string;
  /** Number of connections so far. */
  readonly arrived: number;
  /** Resolves once this many connections have arrived. */
  waitFor(arrived: number): Promise<void>;
  /** Relays waiting and later connections to this address. */
  open(url: string): void;
}

export async function startPausedRelay(): Promise<PausedRelay> {
  const sockets = new Set<Socket>();
  const waiting: Socket[] = [];
  const watchers = new Set<() => void>();
  let target: URL | undefined;
  let arrived = 0;
  const join = (socket: Socket, { hostname, port }: URL) => {
    const onward = connect(Number(port), hostname);
    track(onward);
    socket.pipe(onward).pipe(socket);
  };
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => sockets.delete(socket));
  };
  const server = createServer((socket) => {
    track(socket);
    arrived++;
    if (target === undefined) waiting.push(socket);
    else join(socket, target);
    for (const watcher of watchers) watcher();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4096, resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get arrived() {
      return arrived;
    },
    waitFor: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (arrived < count) return;
          watchers.delete(check);
          resolve();
        };
        watchers.add(check);
        check();
      }),
    open(url) {
      target = new URL(url);
      for (const socket of waiting.splice(0)) join(socket, target);
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
