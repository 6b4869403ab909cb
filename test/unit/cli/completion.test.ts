import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { harness, type Harness } from "../../support/cli-harness.ts";

const farebox: Harness = harness();
beforeAll(async () => {
  await farebox.run("keys", "create", "alice", "--team", "research");
  await farebox.run(
    "keys",
    "create",
    "bob",
    "--label",
    "env=prod",
    "--label",
    "region=eu",
    "--tag",
    "team=x",
    "--user",
    "u_42",
  );
  await farebox.run("keys", "create", "former");
  await farebox.run("keys", "revoke", "former", "--yes");
  await farebox.run("admins", "create", "carol", "--role", "editor");
});
afterAll(() => farebox[Symbol.dispose]());

/** Returns the candidates for the last word, which is empty after a space. */
async function candidates(line: string, shell = "bash"): Promise<string[]> {
  const { code, stdout, stderr } = await farebox.run("completion", shell, "--", ...line.split(" "));
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout.split("\n").slice(0, -1);
}

it.each([
  ["ke", ["keys"]],
  ["keys ", ["create", "list", "show", "update", "rotate", "suspend", "resume", "revoke"]],
  ["keys show ", ["alice", "bob"]],
  ["keys create ", []],
  ["keys create dave --team ", ["research"]],
  ["keys show alice ", []],
  ["keys update alice --label e", ["env=prod"]],
  ["keys create dave --tag ", ["team=x"]],
  ["keys create dave --require user,t", ["user,tag:session"]],
  ["charges --label ", ["env=prod", "region=eu"]],
  ["nothing ", []],
  ["nothing keys show ", []],
  ["teams remove r", ["research"]],
  ["admins revoke ", ["carol"]],
  [
    "budgets set ",
    [
      "all",
      "each-key",
      "each-model",
      "each-user",
      "key:alice",
      "key:bob",
      "team:research",
      "each-key:research",
      "label:env=prod",
      "label:region=eu",
      "user:u_42",
      "tag:team=x",
      "each-tag:session",
      "each-tag:team",
      "model:",
    ],
  ],
  ["budgets set label:r", ["label:region=eu"]],
  ["budgets set mod", ["model:"]],
  ["budgets remove key:a", ["key:alice"]],
  ["budgets set all 5 --per 1", ["1h", "1d", "1w", "1mo"]],
  ["budgets set all 5 --per=1m", ["--per=1mo"]],
  ["charges ", ["show", "adjust"]],
  ["charges --key=", ["--key=alice", "--key=bob"]],
  ["charges --key al", ["alice"]],
  ["charges --st", ["--state"]],
  ["charges --state posted --st", []],
  ["report --by key,d", ["key,day"]],
  ["report --since l", ["last-month"]],
  ["serve --engine u", ["undici"]],
  ["serve --gateway-api", []],
  ["serve --unpriced ", ["record", "refuse"]],
  ["refusals --key a", ["alice"]],
  ["refusals --code budget_", ["budget_exceeded", "budget_held"]],
  ["apply ", [":files"]],
  ["keys list --database ", [":files"]],
  ["run --key ", ["alice", "bob"]],
  ["run -- ", [":files"]],
  ["run python --k", [":files"]],
  ["completion ", ["bash", "zsh", "fish"]],
])("completion completes %j", async (line, expected) => {
  expect(await candidates(line)).toEqual(expected);
});

it("completion knows the models of the price files", async () => {
  const { models } = await farebox.json<{ models: { id: string }[] }>("prices", "list");
  const ids = models.map(({ id }) => id);
  expect(await candidates("watch --model ")).toEqual(ids);
  expect(await candidates("budgets set model:")).toEqual(ids.map((id) => `model:${id}`));
  expect(await candidates(`keys update alice --models ${ids[0]},`)).toEqual(
    ["all", ...ids].map((id) => `${ids[0]},${id}`),
  );
});

it("completion describes candidates for shells that show descriptions", async () => {
  expect(await candidates("keys show a", "zsh")).toEqual(["alice\tkey of team research"]);
  expect(await candidates("keys sh", "fish")).toEqual(["show\tshow a key's settings and the budgets that apply to it"]);
});

it("completion prints no names and no error without a ledger or with invalid settings", async () => {
  expect(await candidates(`keys show --database ${join(farebox.folder, "other.db")} `)).toEqual([]);
  const { env } = farebox;
  farebox.env = { ...env, FAREBOX_BOGUS: "1" };
  expect(await candidates("keys show ")).toEqual([]);
  farebox.env = env;
});

it("completion refuses an unknown shell", async () => {
  expect(await farebox.run("completion", "powershell")).toEqual({
    code: 2,
    stdout: "",
    stderr: 'farebox: shell must be bash, zsh or fish, not "powershell"\n',
  });
});
