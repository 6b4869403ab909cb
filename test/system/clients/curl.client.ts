import { describe, expect, it } from "vitest";
import { skipWithout } from "../../support/programs.ts";
import { runForeign, temporaryHome, type ProgramEnd } from "./support/program.ts";
import { allAsBilled, proxyOfFile, refusedByFarebox, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

async function runCurl({ baseURL, apiKey }: Endpoint, stream: boolean, ...flags: string[]): Promise<ProgramEnd> {
  await using home = await temporaryHome();
  const body = JSON.stringify({ model: "gpt-4o", stream, messages: [{ role: "user", content: "Say hello." }] });
  const headers = ["-H", `Authorization: Bearer ${apiKey}`, "-H", "Content-Type: application/json"];
  return await runForeign(
    "curl",
    ["-sN", ...flags, `${baseURL}/chat/completions`, ...headers, "-d", body],
    home.path,
    {},
  );
}

describe.skipIf(skipWithout("curl"))("curl", () => {
  it("prints an answer, plain and streamed", async () => {
    expect(await runCurl(proxy.rich, false)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('"choices"') as string,
    });
    expect(await runCurl(proxy.rich, true)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/data: \[DONE\]\s*$/) as string,
    });
    const chat = "/v1/chat/completions";
    allAsBilled(await proxy.seen(), [chat, chat]);
  });

  it("prints a refusal, and exits with 22 under --fail-with-body", async () => {
    const refusal = '"code":"budget_exceeded","metadata":{"scope":"key:poor"';
    expect(await runCurl(proxy.poor, false)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(refusal) as string,
    });
    refusedByFarebox(await proxy.seen());
    expect(await runCurl(proxy.poor, true, "--fail-with-body")).toMatchObject({
      code: 22,
      stdout: expect.stringContaining(refusal) as string,
    });
    refusedByFarebox(await proxy.seen());
    expect(await runCurl(proxy.unknown, false, "--fail-with-body")).toMatchObject({
      code: 22,
      stdout: expect.stringContaining('"code":"invalid_api_key"') as string,
    });
    refusedByFarebox(await proxy.seen());
  });

  it("prints the error of a cut stream, and exits with 0", async () => {
    proxy.gatewayWill("cut:5");
    const { code, stdout } = await runCurl(proxy.rich, true, "--fail-with-body");
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n").at(-1)).toMatch(/^data: \{"error":\{.*"code":"gateway_stream_broken"/);
    expect((await proxy.seen()).charges).toMatchObject([{ source: "partial" }]);
  });
});
