import { describe, expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { formatFault } from "../../../src/core/fault.ts";
import { formatUsd } from "../../../src/core/money.ts";
import { canonicalPrice, parseCanonicalPrice } from "../../../src/core/price.ts";
import { diffPrices } from "../../../src/reporting/prices-diff.ts";

const file = `groups: { half: { fraction: "0.50" } }
provider: kling
models:
  kling:
    aliases: [kling-video]
    group: half
    tasks:
      video_generation:
        - { from: 2026-01-01, source: "list", per: second, field: duration, default: "5", max: "10", official: "0.20" }
        - { from: 2026-06-01, source: "list", per: second, field: duration, default: "5", max: "10", official: "0.20", gateway: "0.09" }
      lip_sync:
        - { from: 2026-01-01, until: 2026-03-01, source: "list", official: "0.40" }
      "*":
        - { from: 2026-01-01, source: "list", per: piece, field: n, official: "0.02" }
`;

function built(text: string) {
  const result = buildCatalogue([[{ name: "a.yaml", text }]]);
  if (!result.ok) throw new Error(result.faults.map(formatFault).join("\n"));
  return result.catalogue;
}

function faults(text: string): string[] {
  const result = buildCatalogue([[{ name: "a.yaml", text }]]);
  return result.ok ? [] : result.faults.map(formatFault);
}

describe("prices of tasks", () => {
  const find = (type: string | null, day: string, model = "kling") => {
    const found = built(file).findTask(model, type, Date.parse(day));
    const task = found?.price?.version.task;
    return task === undefined
      ? null
      : [task.taskType, task.per, formatUsd(task.charged), formatUsd(task.list), found?.quantity];
  };
  const seconds = { field: "duration", otherwise: "5", most: "10" };

  it("are found by model, type and time", () => {
    expect(find("video_generation", "2026-02-01")).toEqual(["video_generation", "second", "0.10", "0.20", seconds]);
    expect(find("video_generation", "2026-06-01", "kling-video")).toEqual([
      "video_generation",
      "second",
      "0.09",
      "0.20",
      seconds,
    ]);
    expect(find("video_generation", "2025-12-31")).toBeNull();
    expect(find("lip_sync", "2026-02-28")).toEqual([
      "lip_sync",
      "task",
      "0.20",
      "0.40",
      { field: null, otherwise: "1", most: "1" },
    ]);
    // The price "*" does not replace an ended price of a type.
    expect(find("lip_sync", "2026-03-01")).toBeNull();
    expect(find("anything", "2026-02-01")).toEqual([
      "*",
      "piece",
      "0.01",
      "0.02",
      { field: "n", otherwise: null, most: null },
    ]);
    expect(find(null, "2026-02-01")?.[0]).toBe("*");
    expect(built(file).findTask("other", null, 0)).toBeUndefined();
    // The model has no token prices.
    expect(built(file).find("kling", Date.parse("2026-02-01"))).toMatchObject({ price: null, group: "half" });
  });

  it("can be serialized and parsed back", () => {
    const version = built(file).findTask("kling", "video_generation", Date.parse("2026-02-01"))?.price?.version;
    expect(version).toBeDefined();
    if (version !== undefined) expect(parseCanonicalPrice(canonicalPrice(version))).toEqual(version);
  });

  it("report every fault with its position", () => {
    const wrong = file
      .replace('max: "10", official: "0.20" }', 'max: "10", official: 0.20 }')
      .replace('until: 2026-03-01, source: "list", official: "0.40"', 'source: "list", max: "3", official: "0.40"')
      .replace('field: n, official: "0.02"', 'default: "9", max: "8", official: "0.02"');
    expect(faults(wrong)).toEqual([
      expect.stringMatching(/^a\.yaml:9:.*write it in quotes, "0.20": a decimal string/),
      expect.stringMatching(/^a\.yaml:12:.*no meaning for a price of the whole task; leave "max" out/),
      expect.stringMatching(
        /^a\.yaml:14:.*"field" is missing; write which field of the task's input states the pieces/,
      ),
      expect.stringMatching(/^a\.yaml:14:.*is above max; write at most 8/),
    ]);
    expect(faults(file.replace("    group: half\n", ""))).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/no charged price; name a group with a fraction, or state gateway/),
      ]),
    );
  });

  it("change the catalogue's digest, and appear in a diff", () => {
    const other = built(
      file
        .replace('gateway: "0.09"', 'gateway: "0.08"')
        .replace('field: n, official: "0.02"', 'field: n, official: "0.03"'),
    );
    expect(other.digest).not.toBe(built(file).digest);
    expect(diffPrices(built(file), other).changes).toEqual([
      {
        model: "kling",
        field: "tasks.*.gateway",
        from_prompt_tokens: null,
        from: "2026-01-01",
        until: null,
        before: "0.01",
        after: "0.015",
      },
      {
        model: "kling",
        field: "tasks.*.official",
        from_prompt_tokens: null,
        from: "2026-01-01",
        until: null,
        before: "0.02",
        after: "0.03",
      },
      {
        model: "kling",
        field: "tasks.video_generation.gateway",
        from_prompt_tokens: null,
        from: "2026-06-01",
        until: null,
        before: "0.09",
        after: "0.08",
      },
    ]);
    expect(diffPrices(built("provider: x\n"), built(file)).added).toEqual([
      { model: "kling", group: "half", from: "2026-01-01" },
    ]);
  });
});
