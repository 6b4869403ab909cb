import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const bin = new URL("../../../bin/farebox.mjs", import.meta.url);

it("bin/farebox.mjs refuses an old Node before it loads anything else", () => {
  // Fakes the version of this Node.
  const script = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.19.1" } }); await import(${JSON.stringify(bin.href)});`;
  const ran = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  expect(ran.status).toBe(2);
  expect(ran.stdout).toBe("");
  expect(ran.stderr).toMatch(
    /^farebox needs Node 24\.16 or a newer Node 24, or Node 26\.1 or newer; this is Node 20\.19\.1;[^\n]*\n$/,
  );
});

it("bin/farebox.mjs uses only syntax that Node 12 can parse", () => {
  const source = readFileSync(fileURLToPath(bin), "utf8");
  expect(source).not.toMatch(/\?\.|\?\?|\|\|=|"node:|^\s*await /m);
});
