/**
 * Measures how long the real proxy takes to answer the dashboard's requests for the overview, over HTTP. Uses a ledger that
 * `bench/ledger-rows.ts` wrote. Requests each combination of span and split twice.
 *
 *   node bench/ledger-rows.ts FILE 1000000 90
 *   node bench/overview.ts FILE
 *
 * The clock is set to the last day of the charges. The proxy serves a copy of the file.
 */
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { benchToken, clockAt, copyOfLedger, served } from "./served.ts";

const [path] = parseArgs({ allowPositionals: true }).positionals;
if (path === undefined) throw new Error("usage: node bench/overview.ts FILE");
const clock = clockAt(Date.parse("2026-11-19T20:07:00Z"));
const rounds = 5;

using copy = copyOfLedger(path);
const [first, again]: [Map<string, number[]>, Map<string, number[]>] = [new Map(), new Map()];
for (let round = 0; round < rounds; round++) {
  await using serving = await served(copy.database, clock);
  const request = async (query: string, times: Map<string, number[]>) => {
    const began = performance.now();
    const answer = await fetch(`${serving.url}/admin/v1/overview?${query}`, {
      headers: { authorization: `Bearer ${benchToken}` },
    });
    await answer.text();
    if (answer.status !== 200) throw new Error(`${answer.status}`);
    times.set(query, [...(times.get(query) ?? []), performance.now() - began]);
  };
  // A warm-up starts the thread and reads the file into memory.
  await request("span=24h&by=group", new Map());
  for (const span of ["24h", "7d", "30d", "90d"]) {
    for (const by of ["model", "key", "team", "group"]) {
      await request(`span=${span}&by=${by}`, first);
      await request(`span=${span}&by=${by}`, again);
    }
  }
}
const median = (values: number[] = []) =>
  values
    .toSorted((a, b) => a - b)
    .at(values.length / 2)
    ?.toFixed(0)
    .padStart(5);
for (const [query, times] of first)
  console.log(`${query.padEnd(18)} first ${median(times)} ms, again ${median(again.get(query))} ms`);
