import { expect, it } from "vitest";
import type { Sample } from "../../../bench/load.ts";
import type { Measured } from "../../../bench/measure.ts";
import { figuresOf, tableOf } from "../../../bench/report.ts";
import { workloads } from "../../../bench/workloads.ts";

it("the benchmark calculates its figures per request and per round, and prints them in a table", () => {
  const sample = (requests: number, seconds: number, cpuUs: number | null, p50Us: number): Sample => ({
    requests,
    seconds,
    cpuUs,
    p50Us,
    p99Us: 2 * p50Us,
    heldBytes: null,
  });
  const paced = workloads.find(({ name }) => name === "paced");
  if (paced === undefined) throw new Error("no paced workload");
  const measured: Measured = {
    workload: paced,
    chunks: 20,
    samples: {
      direct: [sample(10, 1, null, 100), sample(10, 2, null, 200)],
      bare: [sample(10, 1, 1_000, 150), sample(10, 2, 4_000, 230)],
      farebox: [sample(10, 1, 3_000, 180), sample(10, 2, 8_000, 270)],
    },
    memory: { farebox: { atRest: 50e6, peak: 60e6 } },
  };
  expect(figuresOf(measured, "farebox")).toEqual({
    throughput: { median: 7.5, min: 5, max: 10 },
    cpuUs: { median: 550, min: 300, max: 800 },
    cpuPercent: { median: 0.35, min: 0.3, max: 0.4 },
    chunksPerCpuSecond: { median: (25_000 + 200_000 / 3) / 2, min: 25_000, max: 200_000 / 3 },
    p50: { median: 225, min: 180, max: 270 },
    p99: { median: 450, min: 360, max: 540 },
    byBare: { median: 2.5, min: 2, max: 3 },
    addedP50: { median: 75, min: 70, max: 80 },
    addedP99: { median: 150, min: 140, max: 160 },
    heldKb: null,
  });
  expect(figuresOf(measured, "direct")).toMatchObject({ cpuUs: null, byBare: null, addedP50: null });
  expect(tableOf(measured)).toMatch(/\nfarebox +0 .* 2\.50 +2\.00-3\.00 +75 +70-80 +150 +50 +60/);
});
