import { createServer, type AddressInfo, type Server } from "node:net";

interface Address {
  readonly host: string;
  readonly port: number;
}

type Listening = { readonly ok: true; readonly url: string } | { readonly ok: false; readonly problem: string };

const listenProblems: Readonly<Record<string, string>> = {
  EADDRINUSE: "another program listens there; choose another --port, or 0 for a free one",
  EACCES: "this user may not listen there; choose a port above 1023",
  EADDRNOTAVAIL: "this machine has no such address; choose another --host",
};

/** Largest number of connections that wait to be accepted. Clients beyond it try again after a second. */
const backlogMax = 4096;

/** Returns the problem if nothing can listen at this address now; null if something can. */
export async function listenProblem(address: Address): Promise<string | null> {
  const server = createServer((socket) => socket.destroy());
  const listening = await listen(server, address);
  if (!listening.ok) return listening.problem;
  await new Promise((resolve) => server.close(resolve));
  return null;
}

/** Starts to listen. Returns the address of the server, or the problem as one sentence. */
export function listen(server: Server, { host, port }: Address): Promise<Listening> {
  return new Promise((resolve) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const why = listenProblems[error.code ?? ""] ?? error.message;
      resolve({ ok: false, problem: `cannot listen on ${host}:${port}: ${why}` });
    });
    server.listen({ port, host, backlog: backlogMax }, () => {
      const bound = server.address() as AddressInfo;
      const shown = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
      resolve({ ok: true, url: `http://${shown}:${bound.port}` });
    });
  });
}
