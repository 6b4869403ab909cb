import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { nodeFlags } from "../../support/node-flags.ts";
import { grown, type Resources } from "./memory.ts";

const soak = fileURLToPath(new URL("run.ts", import.meta.url));
const run = (...args: string[]) => promisify(execFile)(process.execPath, [...nodeFlags, soak, ...args]);

describe("npm run soak", () => {
  it.each([
    [["--minutes", "none"], "--minutes must be a number above 0 and at most 1440, not 'none'"],
    [["--kill-every", "0"], "--kill-every must be a number above 0 and at most 1440, not '0'"],
    [["--kill-every", "abc"], "--kill-every must be a number above 0 and at most 1440, not 'abc'"],
    [["--kill-every", "2"], "--kill-every needs --postgres, because only PostgreSQL is killed"],
    [["--kill", "2"], "Unknown option '--kill'"],
  ])("reports what is wrong with %j in one sentence and runs nothing", async (options, why) => {
    const failed = { code: 2, stdout: "", stderr: expect.stringContaining(why) };
    await expect(run(...options)).rejects.toMatchObject(failed);
  });
});

describe("the growth rule", () => {
  const quarter = (more: Partial<Resources> = {}): Resources => ({
    heapMb: 50,
    rssMb: 300,
    descriptors: 36,
    kinds: {},
    ...more,
  });

  it.each<[string, Partial<Resources>, readonly string[]]>([
    ["accepts the same figures", {}, []],
    ["accepts growth up to its limits", { heapMb: 59, rssMb: 385, descriptors: 40 }, []],
    ["reports more heap", { heapMb: 59.1 }, ["heapMb grew: 50.0, 50.0, 59.1"]],
    ["reports more resident memory", { rssMb: 386 }, ["rssMb grew: 300.0, 300.0, 386.0"]],
    ["reports more descriptors", { descriptors: 41 }, ["descriptors grew: 36.0, 36.0, 41.0; [{},{}]"]],
    ["reports a missing figure", { heapMb: Number.NaN }, ["heapMb grew: 50.0, 50.0, NaN"]],
  ])("%s", (_, more, found) => {
    expect(grown([quarter(), quarter(), quarter(more)])).toEqual(found);
  });
});
