import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { documentSessions, runSession, startSurroundings, type Surroundings } from "../../support/document-session.ts";
import { skipWithout } from "../../support/programs.ts";

const lacksPrograms = (["bash", "curl", "jq", "openssl"] as const).map(skipWithout).includes(true);

describe.skipIf(lacksPrograms)("the commands of", () => {
  let surroundings: Surroundings;
  beforeAll(async () => {
    surroundings = await startSurroundings();
  });
  afterAll(() => surroundings[Symbol.asyncDispose]());

  it.each(documentSessions())("$name succeed", async (session) => {
    const { faults, output } = await runSession(session, surroundings);
    expect(faults, output).toEqual([]);
  });

  it.each([
    ["a wrong command", "farebox keys make alice\n", "exit code 2: farebox keys make alice"],
    ["a wrong option", "echo a && farebox keys list --jsn | jq .\n", "exit code 2: farebox keys list --jsn"],
    ["a failed command in a substitution", "id=$(farebox keys show none)\n", "exit code 2: farebox keys show none"],
    ["an unknown program", "kubectl get pods\n", "no rule for the program kubectl"],
    ["a refused request", "curl http://127.0.0.1:4000/v1/none\n", /^a\.md:1: exit code 22: curl .*\/v1\/none$/],
    ["a file outside", "farebox config show > /etc/farebox\n", "writes outside of its folder"],
    ["a missing folder", "farebox config show > none/farebox\n", "failed: "],
  ])("a page with %s fail", async (_name, commands, fault) => {
    const { faults } = await runSession({ name: "", parts: [{ place: "a.md:1", commands, shown: [] }] }, surroundings);
    expect(faults[0]).toMatch(fault);
  });

  it("a page with another output fail", async () => {
    const part = { place: "a.md:1", commands: "farebox budgets list\n", shown: ["scope subject limits"] };
    const { faults } = await runSession({ name: "", parts: [part] }, surroundings);
    expect(faults).toEqual(["a.md:1: not printed: scope subject limits"]);
  });
});
