import { expect, it } from "vitest";
import { topics } from "../../../src/cli/program.ts";
import { harness } from "../../support/cli-harness.ts";

it("a time span that ends before it begins and a mistyped word are refused by every command with two times", async () => {
  const commands = (await Promise.all(topics.map(({ load }) => load()))).flatMap((loaded) => loaded.commands);
  const names = commands
    .filter(({ declaration: { options = {} } }) => "since" in options && "until" in options)
    .map(({ usage }) => usage);
  expect(names.toSorted()).toEqual(["charges", "export", "reconcile", "refusals", "report"]);
  using farebox = harness();
  await farebox.run("keys", "create", "alice");
  for (const name of names) {
    expect([name, await farebox.run(name, "--since", "lst-month")]).toMatchObject([
      name,
      { code: 2, stdout: "", stderr: expect.stringMatching(/, not "lst-month"; did you mean "last-month"\?\n$/) },
    ]);
    expect([name, await farebox.run(name, "--since", "1d", "--until", "2d")]).toMatchObject([
      name,
      { code: 2, stdout: "", stderr: 'farebox: --until must not be before --since: "2d" is before "1d"\n' },
    ]);
  }
  expect(await farebox.run("report", "--since", "2100-01-01")).toMatchObject({
    code: 2,
    stderr: 'farebox: --until must not be before --since: now is before "2100-01-01"\n',
  });
});
