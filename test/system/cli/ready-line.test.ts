import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, temporaryFolder } from "../../support/farebox-process.ts";

/** Returns Node options for a process that sends itself SIGTERM at the moment it prints its ready line. */
function stoppedAt(readyLine: string): string {
  const module = `const write = process.stdout.write;
    process.stdout.write = function (text, ...more) {
      if (text.includes(${JSON.stringify(readyLine)})) process.kill(process.pid, "SIGTERM");
      return write.call(this, text, ...more);
    };`;
  return `--import=data:text/javascript,${encodeURIComponent(module)}`;
}

describe("a long-running command", () => {
  it.each([
    ["sandbox", ["sandbox", "--port", "0"], "listening on"],
    ["serve", ["serve"], "listening on"],
    ["demo", ["demo"], "Runs until Ctrl-C"],
  ])("%s ends cleanly at a signal that arrives with its ready line", async (_name, args, readyLine) => {
    await using folder = await temporaryFolder();
    const env = {
      FAREBOX_GATEWAY_URL: "http://127.0.0.1:9",
      FAREBOX_GATEWAY_API_KEY: "none",
      FAREBOX_DATABASE: join(folder.path, "farebox.db"),
      FAREBOX_PORT: "0",
      FAREBOX_DRAIN: "0s",
      NODE_OPTIONS: stoppedAt(readyLine),
    };
    const { code, signal, stdout } = await runFarebox(args, { env });
    expect({ code, signal, stdout }).toEqual({ code: 0, signal: null, stdout: expect.stringContaining(readyLine) });
  });

  it("says why the sandbox cannot listen", async () => {
    await using other = await startSandbox();
    const { code, stderr } = await runFarebox(["sandbox", "--port", String(other.port)]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: `farebox: cannot listen on 127.0.0.1:${other.port}: another program listens there; choose another --port, or 0 for a free one\n`,
    });
  });
});
