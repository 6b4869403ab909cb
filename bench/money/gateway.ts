import { startSandbox } from "../../src/sandbox/server.ts";
import type { Sandbox } from "../../src/sandbox/options.ts";
import type { FromGateway, GatewayState, GatewayParams, Moment, ToGateway } from "./gateway-process.ts";

/* The fake gateway of the money benchmark. It also bills the part of an answer that was written before a connection broke. */

const { key, prices } = JSON.parse(process.argv[2] ?? "") as GatewayParams;
let scenario = "";
const sandbox = await startSandbox({
  apiKey: key,
  startingBalanceUsd: "1000000",
  prices,
  keepRequests: 100_000,
  scenario: () => scenario,
});
// A dead parent can no longer stop this process.
process.once("disconnect", () => process.exit());
process.on("message", (message: ToGateway) => void answer(message));
send({ url: sandbox.url });

async function answer(message: ToGateway): Promise<void> {
  if ("scenario" in message) scenario = message.scenario;
  const isReached = !("moment" in message) || (await isReachedWithin(message.moment, message.limitMs));
  send({ id: message.id, state: stateOf(sandbox), isReached });
}

/** Waits for a moment. Returns false if it does not come within the time limit. */
function isReachedWithin(moment: Moment, limitMs: number): Promise<boolean> {
  const isNow = (now: Sandbox) => isAt(moment, stateOf(now));
  return sandbox.waitFor(isNow, limitMs).then(
    () => true,
    () => false,
  );
}

function isAt(moment: Moment, { requests, deltas, open }: GatewayState): boolean {
  if ("requests" in moment) return requests >= moment.requests;
  if ("deltas" in moment) return deltas >= moment.deltas;
  return open === moment.open;
}

function send(message: FromGateway): void {
  process.send?.(message);
}

function stateOf({ requests, billed }: Sandbox): GatewayState {
  const created = requests.filter(({ method }) => method === "POST");
  return {
    requests: created.length,
    open: created.filter(({ ended }) => ended === "open").length,
    deltas: created.reduce((sum, each) => sum + each.deltas, 0),
    calls: billed.calls,
    billed: billed.cost.toString(),
  };
}
