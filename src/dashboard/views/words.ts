import type { View } from "../dom.ts";
import { count } from "../format.ts";
import type { Charge, Limits, Source } from "../types.ts";
import { badge, type Tone } from "../ui.ts";

const tokenNames: Record<string, string> = {
  input: "Input", cached_input: "Cached input", cache_write: "Cache writes", audio_input: "Audio input", image_input: "Image input",
  output: "Output", reasoning: "Reasoning", audio_output: "Audio output", image_output: "Image output",
};

/** A class of tokens as a reader says it. */
export function tokenName(name: string): string {
  return tokenNames[name] ?? name;
}

const sourceTones: Record<Source, Tone> = { reported: "good", counted: "accent", partial: "warn", assumed: "warn" };

/** How a charge's amount is known, or why it has none. */
export function knownBadge({ state, source, status, correction }: Charge): View {
  if (correction !== null) return badge("accent", "correction");
  if (state === "pending") return badge("calm", "running");
  if (state === "voided") return badge(status !== null && status >= 500 ? "bad" : "calm", status === null ? "voided" : `voided · ${status}`);
  return source === null ? badge("warn", "unpriced") : badge(sourceTones[source], source);
}

export function limitWords({ rpm, tpm, parallel }: Limits): string {
  const words = [rpm !== null && `${count(rpm)} requests/min`, tpm !== null && `${count(tpm)} tokens/min`, parallel !== null && `${count(parallel)} at once`].filter((each) => each !== false);
  return words.length === 0 ? "no limits" : words.join(" · ");
}
