import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { skipWithout } from "../../support/programs.ts";

const folder = fileURLToPath(new URL("../../../grafana/prometheus", import.meta.url));
const promtool = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync("promtool", args, { cwd: folder, encoding: "utf8" });
  return { status, output: `${stdout}${stderr}` };
};

describe.skipIf(skipWithout("promtool"))("the rules", () => {
  it.each([
    ["check", "rules", "--lint-fatal", "rules.yml"],
    ["check", "config", "--lint-fatal", "prometheus.yml"],
    ["test", "rules", "rules.test.yml"],
  ])("pass promtool %s %s", (...args) => {
    const { status, output } = promtool(...args);
    expect(output).toContain("SUCCESS");
    expect(status, output).toBe(0);
  });
});

interface RuleFile {
  readonly groups: { readonly rules: { readonly alert?: string; readonly record?: string }[] }[];
}
interface RuleTests {
  readonly tests: { readonly alert_rule_test: { readonly alertname: string; readonly exp_alerts?: unknown[] }[] }[];
}

it("rules.test.yml has each alert both firing and not firing", () => {
  const read = (name: string) => parse(readFileSync(`${folder}/${name}`, "utf8"));
  const alerts = (read("rules.yml") as RuleFile).groups.flatMap(({ rules }) =>
    rules.flatMap(({ alert }) => alert ?? []),
  );
  const asked = (read("rules.test.yml") as RuleTests).tests.flatMap((test) => test.alert_rule_test);
  const fires = (wanted: boolean) =>
    new Set(asked.filter((each) => (each.exp_alerts !== undefined) === wanted).map(({ alertname }) => alertname));
  expect([...fires(true)].toSorted()).toEqual(alerts.toSorted());
  expect([...fires(false)].toSorted()).toEqual(alerts.toSorted());
});
