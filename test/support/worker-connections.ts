import { Agent } from "node:http";
import type { ServeProcess } from "./farebox-process.ts";
import { until } from "./until.ts";
import { fetchAnswer } from "./wire-client.ts";

/** Connections to the workers of a proxy, by worker. An agent keeps one connection, and a connection stays with its worker. */
interface WorkerConnections extends Disposable {
  /** Opens another connection to this worker. */
  to(worker: number): Promise<Agent>;
}

/** Connects to the workers of a proxy that logs requests at `debug`. Sends nothing to its gateway. */
export function workerConnections(serve: ServeProcess, key: string): WorkerConnections {
  const agents = new DisposableStack();
  const spare = new Map<number, Agent[]>();
  const connect = async (): Promise<void> => {
    const agent = agents.adopt(new Agent({ keepAlive: true, maxSockets: 1 }), (each) => each.destroy());
    const { headers } = await fetchAnswer({ url: serve.url, key }, undefined, {
      agent,
      method: "GET",
      path: "/v1/models",
    });
    const line = new RegExp(
      `"worker":(\\d).*"request_id":"${String(headers["x-farebox-request-id"])}".*"msg":"request"`,
    );
    const worker = Number((await serve.printed(line))[1]);
    spare.set(worker, [...(spare.get(worker) ?? []), agent]);
  };
  return {
    async to(worker) {
      const isThere = async () => (spare.get(worker)?.length ?? 0) > 0 || (await connect(), false);
      await until(isThere, `worker ${worker} has accepted a connection`);
      return spare.get(worker)?.shift() as Agent;
    },
    [Symbol.dispose]: () => agents.dispose(),
  };
}
