import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { fromFloat, isUnknown, shareOf } from "../../../bench/money/amounts.ts";
import { Clients, codeIn, labelOf, type Outcome } from "../../../bench/money/load.ts";
import { readOptions } from "../../../bench/money/options.ts";
import { comparisonParts } from "../../../bench/money/page.ts";
import type { Peer, ScenarioName } from "../../../bench/money/peer.ts";
import { loadPeer, peerNames } from "../../../bench/money/registry.ts";
import { addResults, type Figures, type Result } from "../../../bench/money/result.ts";
import { limitFigures } from "../../../bench/money/run-scenario.ts";
import { prices, prompt, scenarios } from "../../../bench/money/scenarios.ts";
import { usd } from "../../../src/core/money.ts";
import { countTokens } from "../../../src/sandbox/text.ts";

const outcome = (status: number | null, code: string | null, ended: Outcome["ended"]): Outcome => ({
  status,
  code,
  ended,
  body: "",
});
const times = (count: number, one: Outcome): Outcome[] => Array.from({ length: count }, () => one);

describe("amounts", () => {
  it("are shown as shares of the bill, rounded to a tenth of a percent, or null for a bill of 0", () => {
    expect(shareOf(usd("0.95"), usd("1"))).toBe(95);
    expect(shareOf(usd("1"), usd("3"))).toBe(33.3);
    expect(shareOf(usd("2"), usd("3"))).toBe(66.7);
    expect(shareOf(usd("0"), usd("3"))).toBe(0);
    expect(shareOf(usd("5"), usd("0"))).toBeNull();
  });

  it("are read from a ledger's floating-point numbers", () => {
    expect(fromFloat(0.1 + 0.2)).toBe(usd("0.3"));
    expect(fromFloat(0.00055 * 37)).toBe(usd("0.02035"));
    expect(() => fromFloat(Number.NaN)).toThrow("NaN is not an amount");
  });

  it("are unknown only with a reason", () => {
    expect(isUnknown({ unknown: "it has no ledger" })).toBe(true);
    expect([0n, null, "0"].filter(isUnknown)).toEqual([]);
  });
});

describe("the request of the burst", () => {
  it("costs 0.00055 USD, a 37th of the budget", () => {
    const promptTokens = countTokens(prompt) + countTokens("user") + 3 + 3;
    expect(promptTokens).toBe(20);
    const { input = "", output = "" } = prices["gpt-4o"] ?? {};
    const cost = (BigInt(promptTokens) * usd(input) + 50n * usd(output)) / 1_000_000n;
    expect(cost).toBe(usd("0.00055"));
    expect(usd(scenarios.burst.budget)).toBe(cost * 37n);
  });
});

describe("figures of a limit", () => {
  const scenario = { budget: "0.02035", requestUsd: "0.00055" };

  it("state the refused requests that would have fit in the budget", () => {
    const answers = [...times(34, outcome(200, null, "whole")), ...times(466, outcome(429, "budget_held", "error"))];
    expect(limitFigures(scenario, { billed: usd("0.0187").toString(), requests: 34 }, answers)).toEqual({
      limitUsd: "0.02035",
      billedPercentOfLimit: 91.9,
      exceededByUsd: "0.00",
      sent: 500,
      letThrough: 34,
      refused: 466,
      refusedThatWouldHaveFit: 3,
      told: { "200": 34, "429 budget_held": 466 },
    });
  });

  it("state by how much a budget was exceeded", () => {
    const all = limitFigures(
      scenario,
      { billed: usd("0.275").toString(), requests: 500 },
      times(500, outcome(200, null, "whole")),
    );
    expect(all).toMatchObject({ exceededByUsd: "0.25465", refused: 0, refusedThatWouldHaveFit: 0 });
    expect(all.billedPercentOfLimit).toBe(1351.4);
  });

  it("count only refusals, not failures of the peer", () => {
    const answers = [outcome(502, null, "error"), outcome(null, null, "broken"), outcome(402, null, "error")];
    const figures = limitFigures(scenario, { billed: "0", requests: 0 }, answers);
    expect(figures).toMatchObject({ refused: 1, refusedThatWouldHaveFit: 1 });
    expect(
      limitFigures({ ...scenario, requestUsd: null }, { billed: "0", requests: 0 }, []).refusedThatWouldHaveFit,
    ).toBeNull();
  });
});

describe("the label of a client's answer", () => {
  it.each([
    ['{"error":{"message":"x","type":"budget_exceeded","code":"400"}}', "budget_exceeded"],
    ['{"error":{"message":"x","type":"insufficient_quota","code":"budget_held"}}', "budget_held"],
    ['{"code":"quota_exceeded","message":"x"}', "quota_exceeded"],
    ['data: {"choices":[]}\n\ndata: {"error":{"code":"budget_exceeded"}}\n\n', "budget_exceeded"],
    ['{"id":"1","object":"chat.completion","choices":[],"type":"x"}', null],
    ['{"error":"no budget"}', null],
    ["<html>", null],
  ])("for the body %s has the code %s", (body, code) => {
    expect(codeIn(body)).toBe(code);
  });

  it.each([
    [outcome(200, null, "whole"), "200"],
    [outcome(402, "budget_exceeded", "error"), "402 budget_exceeded"],
    [outcome(500, null, "error"), "500"],
    [outcome(200, "budget_exceeded", "error"), "200, then budget_exceeded"],
    [outcome(200, null, "broken"), "200, then the connection broke"],
    [outcome(200, null, "silent"), "200, incomplete without an error"],
    [outcome(null, null, "broken"), "no answer"],
    [outcome(200, null, "left"), "(the client left)"],
  ])("of %j is %s", (one, label) => {
    expect(labelOf(one)).toBe(label);
  });
});

describe("a client with retries", () => {
  it.each([
    { refusals: [429, 503], tries: 3, label: "200" },
    { refusals: [429, 429, 429], tries: 3, label: "429 no_money" },
    { refusals: [402], tries: 1, label: "402 no_money" },
  ])("receives $label after the statuses $refusals", async ({ refusals, tries, label }) => {
    let requests = 0;
    await using server = createServer((_, response) => {
      const refusal = refusals[requests++];
      response.writeHead(refusal ?? 200, { "content-type": "application/json", "retry-after-ms": "1" });
      response.end(refusal === undefined ? "{}" : JSON.stringify({ error: { code: "no_money", message: "x" } }));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    using clients = new Clients();
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`;

    expect(labelOf(await clients.send({ url, headers: {}, body: {}, isRetried: true }))).toBe(label);
    expect(requests).toBe(tries);
  });
});

const figures: Figures = {
  billedUsd: "0.0187",
  recordedUsd: "0.0187",
  recordedPercent: 100,
  checkpoint: null,
  ...limitFigures({ budget: "0.02035", requestUsd: "0.00055" }, { billed: usd("0.0187").toString(), requests: 34 }, [
    ...times(34, outcome(200, null, "whole")),
    ...times(466, outcome(429, "a|b", "error")),
  ]),
};
const peer = {
  name: "farebox",
  title: "A",
  homepage: "https://a.example",
  version: "1",
  install: [],
  strengths: "S.",
} as const;
const configurations = { default: [], strictest: [{ setting: "x=1", url: "https://a.example/x" }] };
const one: Peer = {
  ...peer,
  configurations,
  missing: () => null,
  ledgerLagMs: 0,
  unknown: {},
  start: () => Promise.reject(new Error("it is not started")),
};
const result: Result = { peer: "farebox", mode: "default", scenario: "burst-max-tokens", figures, seconds: 1 };

describe("the report", () => {
  it("replaces the figures of the same peer, configuration and scenario", () => {
    const first = addResults(null, one, [result, { ...result, mode: "strictest" }], { cores: 2 });
    const second = addResults(first, one, [{ ...result, seconds: 9 }], { cores: 2 });
    expect(second.results.map(({ mode, seconds }) => [mode, seconds])).toEqual([
      ["strictest", 1],
      ["default", 9],
    ]);
    expect(second.peers["farebox"]).toMatchObject({ version: "1", strengths: "S." });
  });

  it("has a row for each configuration, with a reason instead of each unknown figure", () => {
    const lost = { ...result, scenario: "gateway-cuts", figures: { unknown: "it has no ledger" } } as const;
    const close = { ...result, scenario: "leave-half-way", figures: { ...figures, recordedPercent: 99.6 } } as const;
    const { figures: page } = comparisonParts(
      [addResults(null, one, [result, lost, close], { cpu: "C", cores: 2, node: "24" })],
      peerNames,
    );
    expect(page.split("\n").find((line) => line.startsWith("| A |"))).toBe(
      "| A | unknown (1) | unknown (1) | 92% (3) | unknown (1) | unknown (1) | unknown (1) |",
    );
    expect(page).toContain("| A | unknown (1) | 99.6% | unknown (1) | unknown (2) |");
    expect(page).toContain("- (1) it was not measured");
    expect(page).toContain("- (2) it has no ledger");
    expect(page).toContain("466 × 429 a\\|b<br>34 × 200");
    expect(page).toContain("- **[A](https://a.example)**: S.");
    expect(page).not.toContain("A, strictest");
  });

  it("marks a figure whose clients received no answer", () => {
    const silent = { ...figures, told: { "no answer": 500 }, sent: 500 };
    const { figures: page } = comparisonParts([addResults(null, one, [{ ...result, figures: silent }], {})], peerNames);
    expect(page).toContain("| 92% (3); 500 of 500 clients got no answer |");
  });

  it("states how far the requests were at a kill, as recorded or estimated from the bill", () => {
    const cell = (scenario: ScenarioName, more: Partial<Figures>) => {
      const killed: Result = { ...result, scenario, figures: { ...figures, ...more } };
      const { figures: page } = comparisonParts([addResults(null, one, [killed], {})], peerNames);
      return /; 92% \((.*?)\)/.exec(page)?.[1];
    };
    const checkpoint = { billedUsd: "0.01705", recordedUsd: "0.01", recordedPercent: 58.7 };
    const atKill = { requests: 24, deltas: 1_512, ended: 41 };
    expect(cell("kill-during-holds", { checkpoint, atKill })).toBe("24 of 60");
    expect(cell("kill-during-answers", { checkpoint, atKill })).toBe("1,512 of 3,000");
    expect(cell("kill-after-answers", { checkpoint, atKill })).toBe("41 of 60");
    expect(cell("kill-during-holds", { checkpoint })).toBe("about 31 of 60");
    expect(cell("kill-during-answers", { checkpoint: { ...checkpoint, billedUsd: "0.01876" } })).toBe(
      "about 1,576 of 3,000",
    );
    expect(cell("kill-after-answers", { checkpoint, told: { "200": 243, "no answer": 17 } })).toBe("about 43 of 60");
  });

  it("lists the commits of the results, and counts results without one", () => {
    const old = { ...result, commit: "5233c3b4", loadAverage: 3, day: "2026-11-23" };
    const none = { ...result, scenario: "burst", day: "2026-11-23" } as const;
    const now = {
      ...result,
      scenario: "one-burst",
      commit: "abc1234-dirty",
      loadAverage: 1,
      day: "2026-11-26",
    } as const;
    const { setup } = comparisonParts([addResults(null, one, [old, none, now], {})], peerNames);
    expect(setup).toContain("Of the 3 results, 1 have no commit, and\n  1 have no load.");
    expect(setup).toContain("- **Commits of later figures**: abc1234-dirty.");
    expect(setup).toContain("| 2026-11-23, 2026-11-26 | 1 to 3, partly not recorded |");
  });
});

/** Names in the adapters' code that cannot change a figure: addresses, ports, folders, secrets and members of calls. */
const notSettings = new Set(
  `allowed_models context_tokens current_usage expired_time is_active max_budget max_output_field provider_configs
  reset_duration task_units time_period tokens_per_byte unlimited_quota used_quota user_id video_generation virtual_key
  FAREBOX_GATEWAY_URL FAREBOX_GATEWAY_API_KEY FAREBOX_DATABASE FAREBOX_PORT FAREBOX_PRICING FAREBOX_ADMIN_TOKEN
  SQLITE_PATH INITIAL_ROOT_ACCESS_TOKEN api_base api_key base_url budget_id budget_limit cache_dir cache_params
  files_local_dir general_settings input_cost_per_token input_per_mtok input_price_per_million key_name limit_usd
  litellm_params litellm_settings master_key max_limit max_output_tokens model_info model_list model_name
  network_config output_cost_per_token output_per_mtok output_price_per_million`.split(/\s+/),
);

describe("the peers", () => {
  it.each(peerNames)("include %s with a version, and a page or code for each setting", async (name) => {
    const { version, configurations: both, install, unknown } = await loadPeer(name);
    expect(version).not.toBe("");
    for (const configuration of [both.default, both.strictest]) {
      if (configuration === null) continue;
      expect(configuration.length).toBeGreaterThan(0);
      for (const { setting, url } of configuration) {
        expect(url).toMatch(/^(https:\/\/|[a-z]+\.md)/);
        // Each entry has one setting.
        expect(setting.match(/[A-Za-z_.]+=/g) ?? []).toHaveProperty("length", setting.includes("=") ? 1 : 0);
      }
    }
    expect(install.join("\n")).not.toContain("/root");
    for (const reason of Object.values(unknown)) expect(reason.length).toBeGreaterThan(10);
  });

  it.each(peerNames)("include %s with every setting that its adapter sets", async (name) => {
    const { configurations: both } = await loadPeer(name);
    const stated = [...both.default, ...(both.strictest ?? [])].map(({ setting }) => setting).join("\n");
    const file = name.startsWith("farebox") ? "farebox.ts" : `peers/${name}.ts`;
    const text = readFileSync(new URL(`../../../bench/money/${file}`, import.meta.url), "utf8");
    const shared = name.startsWith("farebox") ? text.replace(/^ {4}env: \{ .*\},$|^ {2}\{ name: .*$/gm, "") : text;
    const names = [...shared.matchAll(/(?:^|[{,])\s*"?([A-Za-z]+(?:_[A-Za-z]+)+)"?:/gm)].map(([, each = ""]) => each);
    expect(names.length).toBeGreaterThan(2);
    expect([...new Set(names)].filter((each) => !notSettings.has(each) && !stated.includes(each))).toEqual([]);
  });

  it("are listed when an unknown peer or scenario is refused", async () => {
    await expect(loadPeer("lite")).rejects.toThrow('unknown peer "lite"; the peers are farebox');
    expect(() => readOptions(["--scenarios", "burst,bursts"])).toThrow("--scenarios takes burst, ");
    expect(readOptions(["--install", "--programs", "/p"])).toEqual({ installInto: "/p" });
    expect(readOptions([])).toMatchObject({ peers: peerNames, isNamed: false });
    expect(readOptions(["--peers", "farebox", "--modes", "strictest"])).toMatchObject({
      peers: ["farebox"],
      isNamed: true,
      modes: ["strictest"],
      scenarios: Object.keys(scenarios),
    });
  });
});
