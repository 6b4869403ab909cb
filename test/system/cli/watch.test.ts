import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { cleanEnvironment } from "../../support/farebox-process.ts";
import { nodeFlags } from "../../support/node-flags.ts";
import { skipWithout } from "../../support/programs.ts";
import { startProxy } from "../../support/running-proxy.ts";

const main = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));

describe("watch", () => {
  it("ends on SIGINT when stdout is not a terminal", async () => {
    await using proxy = await startProxy();
    await (await proxy.chat({})).text();
    await proxy.charges();
    const child = spawn(process.execPath, [...nodeFlags, main, "watch", "--database", proxy.database], {
      env: cleanEnvironment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    await new Promise<void>((resolve) => child.stdout.once("data", () => resolve()));
    child.kill("SIGINT");
    expect(await ended).toBe(0);
  });
});

/** `script` of Linux runs a command on a pseudo-terminal and forwards its output. */
const withoutScript = process.platform !== "linux" || skipWithout("script");

describe.skipIf(withoutScript)("watch on a real terminal", () => {
  it("takes over the screen, shows requests and refusals as they arrive, and restores the screen at q", async () => {
    await using proxy = await startProxy();
    const command = [process.execPath, ...nodeFlags, main, "watch", "--database", proxy.database]
      .map((word) => `'${word}'`)
      .join(" ");
    await proxy.budget("all", "5", "total");
    const child = spawn("script", ["-qec", `stty rows 20 cols 80; ${command}`, "/dev/null"], {
      env: { ...cleanEnvironment(), TERM: "xterm-256color" },
      stdio: ["pipe", "pipe", "pipe"],
    });
    let shown = "";
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    const shows = (text: string) =>
      new Promise<void>((resolve) => {
        const check = () => {
          if (stripVTControlCharacters(shown).includes(text)) resolve();
          else child.stdout.once("data", check);
        };
        check();
      });
    child.stdout.on("data", (chunk: Buffer) => (shown += chunk.toString()));
    await shows("No requests yet");
    await (await proxy.chat({})).text();
    await shows("posted");
    child.stdin.write("/");
    await shows("Filter: _");
    child.stdin.write("refused\r");
    await shows('No request contains "refused".');
    await proxy.budget("all", "0.0000001", "total");
    expect((await proxy.chat({})).status).toBe(402);
    await shows("refused  ");
    await shows("budget_exceeded");
    child.stdin.write("q");
    expect(await ended).toBe(0);
    expect(shown.startsWith("\x1b[?1049h\x1b[?25l")).toBe(true);
    expect(shown.trimEnd().endsWith("\x1b[?7h\x1b[?25h\x1b[?1049l")).toBe(true);
  });
});
