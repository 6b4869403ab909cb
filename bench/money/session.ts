import type { Mode, ScenarioName } from "./peer.ts";
import { loadPeer } from "./registry.ts";
import { runScenario } from "./run-scenario.ts";

export interface Session {
  readonly peer: string;
  readonly mode: Mode;
  readonly scenarios: readonly ScenarioName[];
  readonly programs: string;
}

/* Runs the scenarios of one peer, with everything that it needs, and writes each result as a line of JSON. */

const { peer: name, mode, scenarios, programs } = JSON.parse(process.argv[2] ?? "") as Session;
const peer = await loadPeer(name);
for (const scenario of scenarios) {
  process.stdout.write(`${JSON.stringify(await runScenario({ peer, mode, name: scenario, programs }))}\n`);
}
process.exit();
