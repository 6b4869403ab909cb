import { readFileSync } from "node:fs";

/**
 * Returns a request of Codex CLI 0.169 with its original members and lengths, but without its texts. `<82>` in the
 * file stands for a text of 82 bytes.
 */
export function codexRequest(model: "gpt-5" | "gpt-5.6-sol"): Record<string, unknown> & { input: object[] } {
  const text = readFileSync(new URL("../fixtures/codex-requests.json", import.meta.url), "utf8");
  const filled = text.replaceAll(
    /"<(\d+)>"/g,
    (_, length: string) => `"${"a few words ".repeat(+length).slice(0, +length)}"`,
  );
  const requests = JSON.parse(filled) as Record<string, ReturnType<typeof codexRequest>>;
  return requests[model] as ReturnType<typeof codexRequest>;
}
