import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const bin = new URL("../../../bin/farebox.mjs", import.meta.url);

it("turns an old Node away before anything else loads", () => {
  // The same Node, told that it is an older one.
  const script = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.19.1" } }); await import(${JSON.stringify(bin.href)});`;
  const ran = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  expect(ran.status).toBe(2);
  expect(ran.stdout).toBe("");
  expect(ran.stderr).toMatch(
    /^farebox needs Node 24 from 24\.16 on, or 26\.1 or newer, and this is Node 20\.19\.1;[^\n]*\n$/,
  );
});

it("is written so that Node 12 can parse it", () => {
  const source = readFileSync(fileURLToPath(bin), "utf8");
  expect(source).not.toMatch(/\?\.|\?\?|\|\|=|"node:|^\s*await /m);
});
