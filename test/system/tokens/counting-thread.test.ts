import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

describe("the token counter's thread", () => {
  it("keeps a process alive until its calls are answered, and no longer", async () => {
    const module = new URL("../../../src/platform/tokens/token-counter.ts", import.meta.url).href;
    const program = `
      import { createTokenCounter } from ${JSON.stringify(module)};
      console.log(JSON.stringify(await createTokenCounter().countText("hello world", "o200k_base")));`;
    const run = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
    expect(run.stdout).toBe('{"ok":true,"tokens":2}\n');
  });
});
