import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { pythonProgram, pythonScript, runForeign, temporaryHome, type ProgramEnd } from "../support/program.ts";
import { allAsBilled, proxyOfFile, refusedByFarebox, type Endpoint } from "../support/watched-proxy.ts";

/* Clients of `npm run test:clients -- --all`. */

const proxy = await proxyOfFile();

const chat = "/v1/chat/completions";

const variables = ({ baseURL, apiKey }: Endpoint) => ({
  OPENAI_BASE_URL: baseURL,
  OPENAI_API_BASE: baseURL,
  OPENAI_API_KEY: apiKey,
});

describe.each([
  ["pydantic_agent.py", ["ModelQuotaExceededError", "ModelAuthenticationError", "ModelAPIError"]],
  ["langchain_chat.py", ["APIStatusError", "OpenAIAuthenticationError", "APIError"]],
])("%s", (script, [at402, at401, atCut]) => {
  async function shown(kind: string, at = proxy.rich): Promise<Record<string, unknown>> {
    await using home = await temporaryHome();
    const args = [pythonScript(script), kind];
    const end = await runForeign(pythonProgram("python", "agents"), args, home.path, variables(at));
    return JSON.parse(end.stdout) as Record<string, unknown>;
  }

  it.each(["plain", "streamed"])("answers: %s", async (kind) => {
    expect(await shown(kind)).toMatchObject({ text: expect.stringMatching(/\w+/) as string });
    const { atFarebox, charges } = await proxy.seen();
    expect(atFarebox).toEqual([chat]);
    expect(charges).toMatchObject([{ state: "posted", status: 200, overage: 0n }]);
  });

  it.each(["plain", "streamed"])("reports an exhausted budget or a wrong key after one request: %s", async (kind) => {
    expect(await shown(kind, proxy.poor)).toMatchObject({ error: at402, status: 402 });
    refusedByFarebox(await proxy.seen());
    expect(await shown(kind, proxy.unknown)).toMatchObject({ error: at401, status: 401 });
    refusedByFarebox(await proxy.seen());
  });

  it("raises when its stream is cut", async () => {
    proxy.gatewayWill("cut:5");
    const { error, message } = await shown("streamed");
    expect(error).toBe(atCut);
    expect(message).toContain("The gateway broke off in the middle of the stream.");
    expect((await proxy.seen()).charges).toMatchObject([{ source: "partial" }]);
  });
});

describe("aider", () => {
  const flags = "--model openai/gpt-4o --no-git --yes --no-check-update --no-analytics --no-show-model-warnings";

  async function runAider(at: Endpoint): Promise<{ readonly code: number | null; readonly text: string }> {
    await using home = await temporaryHome();
    const args = [...flags.split(" "), "--message", "Say hello."];
    const { code, stdout } = await runForeign(pythonProgram("aider", "aider"), args, home.path, variables(at));
    // Aider breaks lines at 80 columns.
    return { code, text: stdout.replace(/\s+/g, " ") };
  }

  it("answers", async () => {
    expect(await runAider(proxy.rich)).toMatchObject({
      code: 0,
      text: expect.stringMatching(/Tokens: .* sent/) as string,
    });
    const { atFarebox, charges } = await proxy.seen();
    expect(atFarebox).toEqual([chat]);
    expect(charges).toMatchObject([{ state: "posted", status: 200, source: "reported", overage: 0n }]);
  });

  it("reports an exhausted budget and retries for a minute, at no cost", async () => {
    const { code, text } = await runAider(proxy.poor);
    expect({ code, text }).toEqual({
      code: 0,
      text: expect.stringMatching(
        /APIError: OpenAIException - The budget of key poor .* Retrying in 32\.0 sec/,
      ) as string,
    });
    const seen = await proxy.seen();
    refusedByFarebox(
      seen,
      Array.from({ length: 9 }, () => chat),
    );
  });

  it("reports a wrong key after one request", async () => {
    const { code, text } = await runAider(proxy.unknown);
    expect({ code, text }).toEqual({
      code: 0,
      text: expect.stringContaining("litellm.BadRequestError: OpenAIException - This is not a Farebox key") as string,
    });
    refusedByFarebox(await proxy.seen());
  });

  it("retries for a minute when its stream is cut, and each try is charged", async () => {
    proxy.gatewayWill("cut:5");
    const { code, text } = await runAider(proxy.rich);
    expect({ code, text }).toEqual({
      code: 0,
      text: expect.stringContaining(
        "The gateway broke off in the middle of the stream. Retrying in 32.0 sec",
      ) as string,
    });
    const { charges } = await proxy.seen();
    expect(charges.map(({ source }) => source)).toEqual(Array.from({ length: 9 }, () => "partial"));
  });
});

describe("opencode", () => {
  const program = fileURLToPath(
    new URL(`node_modules/opencode-${process.platform}-${process.arch}/bin/opencode`, import.meta.url),
  );

  async function runOpencode(at: Endpoint): Promise<ProgramEnd> {
    await using home = await temporaryHome();
    const folder = join(home.path, "work");
    await mkdir(folder);
    const config = {
      autoupdate: false,
      share: "disabled",
      model: "farebox/gpt-4o",
      small_model: "farebox/gpt-4o",
      provider: {
        farebox: {
          npm: "@ai-sdk/openai-compatible",
          name: "Farebox",
          options: { baseURL: at.baseURL, apiKey: at.apiKey, includeUsage: true },
          models: { "gpt-4o": { name: "gpt-4o" } },
        },
      },
    };
    await writeFile(join(folder, "opencode.json"), JSON.stringify(config));
    return await runForeign(program, ["run", "Say hello."], folder, variables(at));
  }

  it("answers with one request for a title and one for the answer", async () => {
    const { code } = await runOpencode(proxy.rich);
    expect(code).toBe(0);
    allAsBilled(await proxy.seen(), [chat, chat]);
  });

  it("reports an exhausted budget or a wrong key without a retry", async () => {
    const { code, stderr } = await runOpencode(proxy.poor);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("The budget of key poor") as string });
    refusedByFarebox(await proxy.seen(), [chat, chat]);
    const unknown = await runOpencode(proxy.unknown);
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("not a Farebox key") as string });
    refusedByFarebox(await proxy.seen(), [chat, chat]);
  });

  it.each([400, 404])("reports the gateway's message at status %d without a retry", async (status) => {
    proxy.gatewayWill(`status:${status}`);
    expect(await runOpencode(proxy.rich)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(status === 400 ? "Invalid request." : "The model does not exist") as string,
    });
    expect((await proxy.seen()).atFarebox).toEqual([chat, chat]);
  });

  it("fails without a retry when its stream is cut", async () => {
    proxy.gatewayWill("cut:5");
    const { code, stdout, stderr } = await runOpencode(proxy.rich);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain('"The gateway broke off in the middle of the stream."');
    expect((await proxy.seen()).charges).toMatchObject([{ source: "partial" }, { source: "partial" }]);
  });
});
