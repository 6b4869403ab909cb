import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Spread } from "../../../bench/statistics.ts";
import { codeBlocks, documents } from "../../support/documents.ts";

const readme = documents.get("README.md") ?? "";
const results = documents.get("bench/RESULTS.md") ?? "";
const lines = codeBlocks(readme).flatMap(({ code }) => code.split("\n").map((line) => line.replace(/ +#.*$/, "")));
const headings = [...readme.matchAll(/^## (.*)$/gm)].map(([, heading = ""]) => heading);

interface Measured {
  readonly workloads: readonly {
    readonly name: string;
    readonly memory: Readonly<Record<string, { readonly atRest: number }>>;
    readonly figures: Readonly<
      Record<
        string,
        { readonly cpuUs: Spread | null; readonly addedP50: Spread | null; readonly byBare: Spread | null }
      >
    >;
  }[];
}

const measured = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../../bench/results/${name}.json`, import.meta.url), "utf8")) as Measured;

/** Formats a range once if both ends are the same. */
const range = (values: readonly number[], digits: number) =>
  [...new Set([Math.min(...values), Math.max(...values)].map((value) => value.toFixed(digits)))].join(" to ");

describe("README.md", () => {
  it("has the commands for the demo and the tests", () => {
    expect(lines).toContain("npm ci && npm run demo -- --once");
    expect(lines).toContain("npm ci && npm test");
  });

  it("begins with what Farebox is, a picture and the quickstart", () => {
    expect(readme.indexOf("<picture>")).toBeLessThan(400);
    expect(headings.slice(0, 3)).toEqual(["Quickstart", "Four proofs", "Next to LiteLLM, Bifrost and Portkey"]);
  });

  it("has fewer than 1,000 words outside of code", () => {
    const words = readme.replace(/```[^]*?```|<picture>[^]*?<\/picture>|\]\([^)]*\)/g, "").match(/\p{L}[\p{L}’'-]*/gu);
    expect(words?.length).toBeLessThan(1000);
  });

  it.each([
    ["README.md", /^\| \[\*\*A hard budget holds.*$/m],
    ["docs/guarantees.md", /^### A hard budget holds\n[^]*?Not covered/m],
  ])("%s states the numbers of requests that its proof of budgets sends", (page, section) => {
    const [text = ""] = section.exec(documents.get(page) ?? "") ?? [];
    const sent = ["budget", "overlapping-budgets"].map((name) => {
      const test = readFileSync(new URL(`../../proxy/${name}.test.ts`, import.meta.url), "utf8");
      const [, thorough = "", quick = ""] = /^const burst = size\(([\d_]+), ([\d_]+)\);$/m.exec(test) ?? [];
      return (text.includes("TEST_EFFORT=all") ? thorough : quick).replace("_", ",");
    });
    const stated = new Set([...text.matchAll(/([\d,]+) (?:parallel )?requests /g)].map(([, count]) => count));
    expect(stated).toEqual(new Set(sent));
  });

  it("states the measured CPU, memory and overhead", () => {
    const figuresOf = (run: Measured, workload: string, name: string) =>
      run.workloads.find((each) => each.name === workload)?.figures[name];
    const cpu = (run: Measured, name: string) =>
      ["plain", "stream"]
        .map(
          (workload) =>
            (figuresOf(run, workload, name)?.cpuUs?.median ?? NaN) /
            (figuresOf(run, workload, "farebox")?.cpuUs?.median ?? NaN),
        )
        .map((ratio) => ratio.toFixed(ratio < 10 ? 1 : 0))
        .join(" and ");
    const memory = (runs: readonly Measured[], name: string) =>
      range(
        runs
          .flatMap(({ workloads }) => workloads.flatMap(({ memory: each }) => (each[name]?.atRest ?? NaN) / 1e6))
          .filter((mb) => !Number.isNaN(mb)),
        0,
      );
    const [requests, streams, bare, go, current] = ["requests", "streams", "bare", "go", "current"].map(measured) as [
      Measured,
      Measured,
      Measured,
      Measured,
      Measured,
    ];
    const rowIn = (text: string, start: string) => text.split("\n").find((line) => line.startsWith(start)) ?? "";
    const row = (start: string) => rowIn(readme, start);

    expect(row("| CPU compared with Farebox")).toContain(
      `| 1 and 1 | ${cpu(requests, "litellm")} times | ${cpu(go, "bifrost")} times | ${cpu(requests, "portkey")} times |`,
    );
    const all = [requests, streams, bare, go];
    const [, ofPackage, ofCheckout] = rowIn(results, "| memory after the first request").split(" | ");
    expect(row("| memory when idle")).toBe(
      `| memory when idle | ${ofPackage} as a package, ${ofCheckout} in a checkout | ${memory(all, "litellm")} MB | ${memory(all, "bifrost")} MB | ${memory(all, "portkey")} MB |`,
    );
    const byBare = (...workloads: readonly string[]) =>
      range(
        workloads.flatMap((workload) =>
          ["farebox", "undici"].map((name) => figuresOf(current, workload, name)?.byBare?.median ?? NaN),
        ),
        1,
      );
    const added = (name: string) => figuresOf(current, "latency", name)?.addedP50?.median ?? NaN;
    const streamed = byBare("stream", "open-stream", "paced", "open-paced");
    expect(row("| [**Its overhead")).toContain(
      `streams use ${streamed} times the CPU, and plain requests ${byBare("plain")} times; with one client, a plain request takes ${((added("farebox") - added("bare")) / 1_000).toFixed(1)} ms longer`,
    );
  });
});
