/**
 * Measures the CPU that all threads of the proxy need for a 402. Measurements with and without the recording of refusals
 * alternate. The ratio includes the writes after each flood, but not the cost of noting the key and the model of each request.
 *
 *   node bench/refusals.ts [--keys 1000] [--rounds 8] [--requests 4000] [--postgres]
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { setBudget } from "../src/admin/budget-changes.ts";
import { createKey } from "../src/admin/key-changes.ts";
import { systemClock } from "../src/platform/clock.ts";
import { silentLog } from "../test/support/captured-log.ts";
import { settingsFrom } from "../test/support/settings-from.ts";
import { startServing } from "../src/server/serving.ts";
import { startPostgres } from "../test/support/postgres.ts";

const count = { type: "string" } as const;
const { values } = parseArgs({
  options: { keys: count, rounds: count, requests: count, postgres: { type: "boolean" } },
});
const [keyCount, rounds, requests] = [
  Number(values.keys ?? 1_000),
  Number(values.rounds ?? 8),
  Number(values.requests ?? 4_000),
];
/** Time after each flood in which its refusals are written, in milliseconds. */
const writeMs = 2_500;

await using owned = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), "farebox-bench-"));
owned.defer(() => rmSync(folder, { recursive: true }));
const postgres = values.postgres === true ? owned.use(await startPostgres({ isDurable: true })) : null;
const settings = settingsFrom({
  FAREBOX_DATABASE: (await postgres?.create("flood")) ?? join(folder, "farebox.db"),
  // Nothing is forwarded.
  FAREBOX_GATEWAY_URL: "http://127.0.0.1:9",
  FAREBOX_GATEWAY_API_KEY: "sk-gateway",
  FAREBOX_PORT: "0",
});
const clock = systemClock();
const started = await startServing(settings, { clock, log: silentLog, version: "bench" });
if (!started.ok) throw new Error(started.problems.join("; "));
const serving = owned.use(started.serving);
const tools = { ...serving, clock, by: "bench" };
const keys: string[] = [];
for (let index = 0; index < keyCount; index++) {
  const created = await createKey(tools, { name: `key-${index}` });
  if (!created.ok) throw new Error(created.message);
  keys.push(created.text);
}
await setBudget(tools, { scope: "each-key", period: "1d", limit: "0.000001", mode: "hard" });

// The clients run in a separate process, because their CPU must not be counted.
const clients = fork(join(import.meta.dirname, "targets", "flood.ts"));
owned.defer(() => clients.disconnect());
const port = Number(new URL(serving.url).port);
const flood = async () => {
  clients.send({ port, keys, requests });
  const [problem] = await once(clients, "message");
  if (problem !== "done") throw new Error(problem);
};

const { record } = serving.recorder;
const ignore = () => undefined;
/** Returns the CPU of this process for each request, in microseconds. */
async function measure(isRecording: boolean): Promise<number> {
  Object.assign(serving.recorder, { record: isRecording ? record : ignore });
  const before = process.cpuUsage();
  await flood();
  await pause(writeMs);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / requests;
}

await measure(true);
await measure(false);
const ratios: number[] = [];
for (let round = 0; round < rounds; round++) {
  // In the order A B B A, because the load of the machine changes.
  const first = await measure(round % 2 === 0);
  const second = await measure(round % 2 !== 0);
  const [on, off] = round % 2 === 0 ? [first, second] : [second, first];
  ratios.push(on / off);
  console.log(`recorded ${on.toFixed(1)} µs, not recorded ${off.toFixed(1)} µs, ratio ${(on / off).toFixed(3)}`);
}
const sorted = ratios.toSorted((a, b) => a - b);
const [low = 0, high = 0] = [sorted[(rounds - 1) >> 1], sorted[rounds >> 1]];
console.log(
  `${postgres === null ? "SQLite" : "PostgreSQL"}, ${keyCount} keys: median ratio ${((low + high) / 2).toFixed(3)}`,
);
