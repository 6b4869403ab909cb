import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { temporaryFolder } from "../support/farebox-process.ts";

const script = fileURLToPath(new URL("../../scripts/prices-check.ts", import.meta.url));

/** Recorded on 2026-11-22: three models of genai-prices 0.2.3 and litellm 1.109.1. */
const genai = `[{"id":"openai","models":[
  {"id":"gpt-6-luna","match":{"equals":"gpt-6-luna"},"context_window":1050000,"prices":{"input_mtok":0.1,"cache_read_mtok":0.01,"output_mtok":0.5}},
  {"id":"gpt-4o","match":{"equals":"gpt-4o"},"context_window":128000,"prices":{"input_mtok":2.5,"cache_read_mtok":1.25,"output_mtok":10,"web_searches_kcount":10}},
  {"id":"gpt-9","match":{"equals":"gpt-9"},"context_window":128000,"prices":{"input_mtok":1,"output_mtok":2}}]}]`;
const litellm = `{
  "gpt-6-luna": { "litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-07, "cache_read_input_token_cost": 1e-08, "output_cost_per_token": 5e-07 },
  "gpt-4o": { "litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-06, "cache_read_input_token_cost": 1.25e-06, "output_cost_per_token": 1e-05 },
  "gpt-9": { "litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06 } }`;

const prices = (gpt4oInput: string) => `groups: { official: { fraction: "1" } }
provider: openai
defaults: { context_tokens: 128000, max_output_tokens: 16384 }
models:
  gpt-6-luna:
    group: official
    prices: [{ from: 2026-01-01, source: "a list", official: { input: "0.10", cached_input: "0.01", output: "0.50" } }]
  gpt-4o:
    group: official
    prices: [{ from: 2026-01-01, source: "a list", official: { input: "${gpt4oInput}", cached_input: "1.25", output: "10.00" } }]
`;

async function check(folder: string, tables: readonly string[]) {
  const done = Promise.withResolvers<{ code: number; stdout: string; stderr: string }>();
  execFile(
    process.execPath,
    [script, ...tables],
    { env: { ...process.env, PRICES_CHECK_FOLDER: folder } },
    (error, stdout, stderr) => {
      done.resolve({ code: typeof error?.code === "number" ? error.code : error === null ? 0 : -1, stdout, stderr });
    },
  );
  return await done.promise;
}

it("prices-check fails with a list when both tables agree on a price that differs from the price files", async () => {
  await using temporary = await temporaryFolder();
  const server = createServer(({ url }, response) => response.end(url === "/data.json" ? genai : litellm)).listen(
    0,
    "127.0.0.1",
  );
  await once(server, "listening");
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const tables = [`${url}/data.json`, `${url}/model_prices.json`];
    const folder = join(temporary.path, "pricing");
    await mkdir(folder);
    await writeFile(join(folder, "openai.yaml"), prices("2.50"));
    const missing = "not in the shipped files, but the same in both tables: gpt-9\n";
    expect(await check(folder, tables)).toEqual({
      code: 0,
      stdout: `${missing}2 models compared, 0 differ from both tables\n`,
      stderr: "",
    });
    await writeFile(join(folder, "openai.yaml"), prices("2.00"));
    expect(await check(folder, tables)).toEqual({
      code: 1,
      stdout: `gpt-4o: input is 2.00 in the shipped files, but 2.50 in both tables\n${missing}2 models compared, 1 differ from both tables\n`,
      stderr: "",
    });
    expect(await check(folder, [`${url}/data.json`])).toMatchObject({
      code: 2,
      stderr: "prices-check: one table cannot be compared with others; give at least two files or addresses\n",
    });
    expect(await check(folder, [...tables, join(folder, "absent.json")])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("absent.json cannot be read (ENOENT)"),
    });
  } finally {
    server.close();
  }
});
