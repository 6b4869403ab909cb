import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkout } from "./run-program.ts";
import { freePort } from "./free-port.ts";
import { until } from "./until.ts";

/** A real HAProxy with the settings of deploy/haproxy.cfg; disposing of it ends it. */
export interface Balancer extends AsyncDisposable {
  readonly url: string;
  /** Log of the load balancer, such as the reason why a proxy gets no more requests. */
  readonly log: string;
}

/** Starts a load balancer for the proxies at these addresses, and waits until the first proxy is ready. */
export async function startBalancer(proxies: readonly string[]): Promise<Balancer> {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "farebox-haproxy-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const address = `127.0.0.1:${await freePort()}`;
  const config = join(folder, "haproxy.cfg");
  await writeFile(config, settingsFor(await readFile(join(checkout, "deploy/haproxy.cfg"), "utf8"), address, proxies));
  const child = spawn("haproxy", ["-db", "-f", config], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece: Buffer) => (said += piece.toString()));
  const ended = once(child, "close");
  owned.defer(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const url = `http://${address}`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`haproxy does not run: ${said}`);
    return (
      (await fetch(`${url}/readyz`).then(
        (answer) => answer.status,
        () => 0,
      )) === 200
    );
  }, "the balancer answers");
  const kept = owned.move();
  return {
    url,
    get log() {
      return said;
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Returns the file with other addresses for the listener and the servers. */
function settingsFor(file: string, address: string, proxies: readonly string[]): string {
  const lines = file
    .replace("bind :4000", `bind ${address}`)
    .split("\n")
    .flatMap((line) => {
      const name = /^ +server farebox-(\d) /.exec(line)?.[1];
      if (name === undefined) return [line];
      const proxy = proxies[Number(name) - 1];
      return proxy === undefined ? [] : [line.replace(`farebox-${name}:4000`, new URL(proxy).host)];
    });
  const text = lines.join("\n");
  if (!text.includes(`bind ${address}`) || proxies.some((proxy) => !text.includes(new URL(proxy).host)))
    throw new Error("deploy/haproxy.cfg is not as this expects it");
  return text;
}
