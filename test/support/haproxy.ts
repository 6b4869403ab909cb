import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { checkout } from "./run-program.ts";
import { freePort } from "./free-port.ts";
import { until } from "./until.ts";

/** A real HAProxy with the settings of deploy/haproxy.cfg; disposing of it ends it. */
interface Balancer extends AsyncDisposable {
  readonly url: string;
  /** Resolves once the load balancer counts every proxy as ready. */
  allReady(): Promise<void>;
  /** Log of the load balancer, such as the reason why a proxy gets no more requests. */
  readonly log: string;
}

/** Starts a load balancer for the proxies at these addresses, and waits until it counts every proxy as ready. */
export async function startBalancer(proxies: readonly string[]): Promise<Balancer> {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "farebox-haproxy-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const address = `127.0.0.1:${await freePort()}`;
  const config = join(folder, "haproxy.cfg");
  const socket = join(folder, "stats");
  const file = await readFile(join(checkout, "deploy/haproxy.cfg"), "utf8");
  await writeFile(config, settingsFor(file, { address, socket, proxies }));
  const child = spawn("haproxy", ["-db", "-f", config], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece: Buffer) => (output += piece.toString()));
  const ended = once(child, "close");
  owned.defer(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const allReady = () =>
    until(async () => (await readyServers(socket)) === proxies.length, "the balancer counts every proxy as ready");
  const url = `http://${address}`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`haproxy does not run: ${output}`);
    return (
      (await fetch(`${url}/readyz`).then(
        (answer) => answer.status,
        () => 0,
      )) === 200
    );
  }, "the balancer answers");
  await allReady();
  const kept = owned.move();
  return {
    url,
    allReady,
    get log() {
      return output;
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Returns the number of servers that the load balancer counts as ready. */
async function readyServers(socket: string): Promise<number> {
  const statistics = await text(connect(socket).end("show stat\n"));
  // The first columns are the name of the backend and of the server.
  return statistics.split("\n").filter((line) => /^proxies,farebox-\d,.*,UP,/.test(line)).length;
}

interface Places {
  readonly address: string;
  readonly socket: string;
  readonly proxies: readonly string[];
}

/**
 * Returns the file with other addresses for the listener and the servers, and with checks that notice a drain well
 * before its end, and that only a refusal fails on a busy machine.
 */
function settingsFor(file: string, { address, socket, proxies }: Places): string {
  const lines = file
    .replace("bind :4000", `bind ${address}`)
    .replace("global\n", `global\n    stats socket ${socket}\n`)
    .replace("timeout check 2s", "timeout check 60s")
    .replace("check inter 500ms", "check inter 100ms")
    .split("\n")
    .flatMap((line) => {
      const name = /^ +server farebox-(\d) /.exec(line)?.[1];
      if (name === undefined) return [line];
      const proxy = proxies[Number(name) - 1];
      return proxy === undefined ? [] : [line.replace(`farebox-${name}:4000`, new URL(proxy).host)];
    });
  const settings = lines.join("\n");
  const parts = [`bind ${address}`, socket, "check 60s", "inter 100ms", ...proxies.map((proxy) => new URL(proxy).host)];
  if (parts.some((part) => !settings.includes(part))) throw new Error("deploy/haproxy.cfg is not as this expects it");
  return settings;
}
