import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

/** Resources of a process after a forced garbage collection, while no request runs. */
export interface Resources {
  readonly heapMb: number;
  readonly rssMb: number;
  /** Open file descriptors, without those of open connections. */
  readonly descriptors: number;
  /** All open file descriptors by kind. */
  readonly kinds: Readonly<Record<string, number>>;
}

type Figure = "heapMb" | "rssMb" | "descriptors";

/** Growth that is not a leak: caches fill up, and the allocator keeps pages. */
const allowed: Readonly<Record<Figure, { readonly share: number; readonly more: number }>> = {
  heapMb: { share: 0.1, more: 4 },
  rssMb: { share: 0.15, more: 40 },
  descriptors: { share: 0, more: 4 },
};

export const rule =
  "after the last quarter a process may have at most as much as after the first one, plus " +
  Object.entries(allowed)
    .map(([figure, { share, more }]) => `${share * 100}% and ${more} (${figure})`)
    .join(", ");

/** Returns a sentence for each figure that grew more than the rule allows from the first quarter to the last. */
export function grown(quarters: readonly Resources[]): string[] {
  const [first, last] = [quarters[0], quarters.at(-1)];
  if (first === undefined || last === undefined) return ["nothing was measured"];
  return (Object.keys(allowed) as Figure[])
    .filter((figure) => !(last[figure] <= first[figure] * (1 + allowed[figure].share) + allowed[figure].more))
    .map((figure) => {
      const kinds = figure === "descriptors" ? `; ${JSON.stringify([first.kinds, last.kinds])}` : "";
      return `${figure} grew: ${quarters.map((each) => each[figure].toFixed(1)).join(", ")}${kinds}`;
    });
}

/** Flags that make Node open the inspector, which can force a garbage collection. */
export const inspectorFlags = "--inspect=127.0.0.1:0";
export const inspectorLine = /Debugger listening on (ws:\S+)/;

/** Time in which files and connections of the last requests are closed, in milliseconds. */
const idleMs = 1_500;
const mb = 1024 * 1024;

/** Ports of the proxy, and of the servers that it is connected to. */
export interface Ports {
  readonly own: number;
  readonly others: readonly number[];
}

export async function measure(pid: number, inspector: string, ports: Ports): Promise<Resources> {
  let open: readonly string[] | null = null;
  let descriptors = Infinity;
  for (const until = performance.now() + idleMs; performance.now() < until; await pause(250)) {
    const now = await openFiles(pid);
    const own = now.length - (await connections(ports));
    if (own >= descriptors) continue;
    open = now;
    descriptors = own;
  }
  const sendCommand = await connect(inspector);
  // The second collection frees what only finalizers kept.
  for (const method of ["HeapProfiler.collectGarbage", "HeapProfiler.collectGarbage"]) await sendCommand(method);
  const expression = "JSON.stringify(process.memoryUsage())";
  const { result } = (await sendCommand("Runtime.evaluate", { expression })) as {
    readonly result: { readonly value: string };
  };
  await sendCommand(null);
  const { heapUsed, rss } = JSON.parse(result.value) as NodeJS.MemoryUsage;
  const kinds = Object.fromEntries(
    [...Map.groupBy(open ?? [], (kind) => kind)].map(([kind, all]) => [kind, all.length]),
  );
  return { heapMb: heapUsed / mb, rssMb: rss / mb, descriptors, kinds };
}

/** Counts the proxy's open connections, which pools keep. Half-closed ones do not count. */
async function connections({ own, others }: Ports): Promise<number> {
  const lines = (await readFile("/proc/net/tcp", "utf8")).trim().split("\n").slice(1);
  return lines.filter((line) => {
    const [, local = "", remote = "", state] = line.trim().split(/\s+/);
    const port = (address: string) => Number.parseInt(address.split(":")[1] ?? "", 16);
    return state === "01" && (port(local) === own || others.includes(port(remote)));
  }).length;
}

/** Returns the kind of each open file descriptor, such as `socket`, `pipe` or a path. */
async function openFiles(pid: number): Promise<string[]> {
  const folder = `/proc/${pid}/fd`;
  const links = (await readdir(folder)).map((name) => readlink(join(folder, name)).catch(() => "closed meanwhile"));
  return (await Promise.all(links)).map((link) => link.replace(/:\[\d+\]$/, ""));
}

/** Returns a function that calls a method of the inspector; null closes the connection. */
async function connect(url: string): Promise<(method: string | null, params?: object) => Promise<unknown>> {
  const socket = new WebSocket(url);
  const next = (event: "open" | "message" | "close") =>
    new Promise<Event>((resolve, reject) => {
      socket.addEventListener(event, resolve, { once: true });
      socket.addEventListener("error", () => reject(new Error(`no connection to ${url}`)), { once: true });
    });
  await next("open");
  let id = 0;
  return async (method, params = {}) => {
    if (method === null) {
      const closed = next("close");
      socket.close();
      return closed;
    }
    const mine = ++id;
    socket.send(JSON.stringify({ id: mine, method, params }));
    for (;;) {
      const { data } = (await next("message")) as MessageEvent;
      const answer = JSON.parse(String(data)) as { readonly id?: number; readonly result?: unknown };
      if (answer.id === mine) return answer.result;
    }
  };
}
