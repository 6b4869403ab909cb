import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { addAdmin } from "../../support/admin-client.ts";
import { startProxy } from "../../support/running-proxy.ts";

const guide = readFileSync(new URL("../../../docs/admin-api.md", import.meta.url), "utf8");

describe("docs/admin-api.md", () => {
  it("has curl examples that work, one after the other", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_AUTH: "keys" } });
    const token = await addAdmin(proxy.database, "carol", "editor");
    const examples = [...guide.matchAll(/```sh\n(.*?)```/gs)]
      .map(([, text = ""]) => text)
      .find((text) => text.includes("curl"));
    const script = (examples ?? "").replace("http://127.0.0.1:4000", proxy.url).replaceAll("alice", "alina");
    expect(script.match(/^curl /gm)?.length).toBeGreaterThan(8);
    const ran = await bash(`set -e\ncurl() { command curl --fail-with-body "$@"; echo; }\n${script}`, {
      FAREBOX_TOKEN: token,
    });
    expect(ran).toMatchObject({ code: 0 });
    expect(ran.stdout.trim().split("\n")).toHaveLength(script.match(/^curl /gm)?.length ?? 0);
  });
});

function bash(
  script: string,
  env: Record<string, string>,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn("bash", ["-c", script], { env: { PATH: process.env["PATH"] ?? "", ...env } });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}
