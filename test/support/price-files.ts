import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Price of a video task: USD 0.10 per second, half of the official price. 100 used credits are worth USD 1. */
export const videoTaskPrices = `provider: kling
task_units: { used_credits: "100" }
models:
  kling:
    tasks:
      video_generation:
        - { from: 2026-01-01, source: "made up for a test", per: second, field: duration, default: "5", max: "10", official: "0.20", gateway: "0.10" }
`;

/** Creates a folder with one price file, for FAREBOX_PRICING. */
export function priceFolder(text: string): { readonly path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), "farebox-prices-"));
  writeFileSync(join(path, "prices.yaml"), text);
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Returns a price file of one model with a price from each of these days; `input` and `output` per million tokens. */
export function oneModelFile(
  model: string,
  prices: readonly { readonly from: string; readonly input: string; readonly output: string }[],
): string {
  const entries = prices.map(
    ({ from, input, output }) => `      - from: ${from}
        source: "made up for a test"
        official: { input: "${input}", output: "${output}" }
        gateway: { input: "${input}", output: "${output}" }
`,
  );
  return `provider: example
models:
  ${model}:
    tokenizer: o200k_base
    context_tokens: 10000
    max_output_tokens: 1000
    reasoning: false
    prices:
${entries.join("")}`;
}

/** Writes a file as editors do: writes a new one and renames it over the old one. */
export async function replaceFile(folder: string, name: string, text: string): Promise<void> {
  const temporary = join(folder, `.${name}.tmp`);
  await writeFile(temporary, text);
  await rename(temporary, join(folder, name));
}
