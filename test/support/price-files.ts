import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

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
