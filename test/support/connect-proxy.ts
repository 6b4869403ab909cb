import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect, type AddressInfo, type Socket } from "node:net";

/** A real HTTP proxy on loopback that opens tunnels with CONNECT. */
export interface ConnectProxy extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Address of the proxy without credentials. */
  readonly url: string;
  /** Host and port of each CONNECT, in order. */
  readonly targets: readonly string[];
  /** Headers `proxy-authorization` and `host` of each CONNECT, in order. */
  readonly heads: readonly { readonly authorization: string | undefined; readonly host: string | undefined }[];
  /** Ports of this machine to which the proxy leads a host and port such as "gateway.test:443". It resolves no other. */
  readonly routes: Map<string, number>;
  /** Answers CONNECT with this status line and headers instead of a tunnel; null for tunnels, undefined for no answer. */
  refusal: string | null | undefined;
  /** Resolves once this number of CONNECT has arrived. */
  arrived(count: number): Promise<void>;
  /** Number of open connections of clients. */
  readonly open: number;
}

interface ConnectProxyOptions {
  /** User name and password, joined by a colon, without which the proxy answers 407. */
  readonly credentials?: string;
  /** Makes it a proxy that is reached with TLS. */
  readonly tls?: { readonly key: string; readonly cert: string };
  /** Receives requests that are not CONNECT. */
  readonly onRequest?: RequestListener;
}

/** Most tunnels that one proxy opens. A test that loops fails instead of using up the machine. */
const tunnelsMax = 200;

export async function connectProxy({ credentials, tls, onRequest }: ConnectProxyOptions = {}): Promise<ConnectProxy> {
  const answer: RequestListener = onRequest ?? ((_, response) => response.writeHead(501).end());
  const server: Server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => socket.destroy());
  };
  const targets: string[] = [];
  const heads: ConnectProxy["heads"][number][] = [];
  let waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  let clients = 0;
  server.on(tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
    keep(socket);
    clients += 1;
    socket.on("close", () => (clients -= 1));
  });
  server.on("connect", (request, client: Socket, head: Buffer) => {
    targets.push(request.url ?? "");
    const { "proxy-authorization": authorization, host } = request.headers;
    heads.push({ authorization, host });
    waiting = waiting.filter(({ count, resolve }) => (targets.length < count ? true : void resolve()));
    const { refusal } = proxy;
    // Without a reader, the end of the connection would go unnoticed.
    if (refusal === undefined) return void client.on("end", () => client.destroy()).resume();
    const expected = credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString("base64")}`;
    if (refusal !== null) return void client.end(`HTTP/1.1 ${refusal}\r\n\r\n`);
    if (expected !== undefined && authorization !== expected)
      return void client.end(
        'HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm="x"\r\n\r\n',
      );
    const port = proxy.routes.get(request.url ?? "");
    if (port === undefined || targets.length > tunnelsMax) return void client.end("HTTP/1.1 502 No such host\r\n\r\n");
    const target = connect(port, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 Connection established\r\nproxy-agent: test\r\n\r\n");
      if (head.length > 0) target.write(head);
      client.pipe(target).pipe(client);
    });
    keep(target);
    target.on("close", () => client.destroy());
    client.on("close", () => target.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const host = tls === undefined ? "127.0.0.1" : "localhost";
  const proxy: ConnectProxy = {
    host,
    port,
    url: `${tls === undefined ? "http" : "https"}://${host}:${port}`,
    targets,
    heads,
    routes: new Map(),
    refusal: null,
    arrived: (count) =>
      new Promise((resolve) => {
        if (targets.length >= count) resolve();
        else waiting.push({ count, resolve });
      }),
    get open() {
      return clients;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}
