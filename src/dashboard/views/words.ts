import { small, span, type View } from "../dom.ts";
import { count } from "../format.ts";
import type { Charge, Limits, Source } from "../types.ts";
import { badge, type Tone } from "../ui.ts";
import type { Bounds } from "./forms.ts";

const tokenNames: Record<string, string> = {
  input: "Input",
  cached_input: "Cached input",
  cache_write: "Cache writes",
  cache_write_1h: "One-hour cache writes",
  audio_input: "Audio input",
  image_input: "Image input",
  output: "Output",
  reasoning: "Reasoning",
  audio_output: "Audio output",
  image_output: "Image output",
};

/** Returns the label of a token class. */
export function tokenName(name: string): string {
  return tokenNames[name] ?? name;
}

const sourceTones: Record<Exclude<Source, "reported">, Tone> = { counted: "accent", partial: "warn", assumed: "warn" };

/** Shows the source of an amount, or the state that explains why there is none. "reported" is normal and has no colour. */
export function knownBadge({ state, source, status, correction }: Charge): View {
  if (correction !== null) return badge("accent", "correction");
  if (state === "pending") return badge("calm", "running");
  if (state === "voided")
    return badge(status !== null && status >= 500 ? "bad" : "calm", status === null ? "voided" : `voided · ${status}`);
  if (source === "reported")
    return span({ class: "known-plain" }, span({ class: "dot good", "aria-hidden": "true" }), "reported");
  return source === null ? badge("warn", "unpriced") : badge(sourceTones[source], source);
}

/** Replaces the underscores in a name with spaces. */
export function plainName(name: string): string {
  return name.replaceAll("_", " ");
}

export function tagsOf(tags: Charge["tags"]): View[] {
  return Object.entries(tags).map(([name, value]) => span({ key: name, class: "tag" }, `${name}: ${value}`));
}

export function upperFirst(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Marks a charge with doubts. Returns null if it has none. */
export function doubtBadge({ doubts }: Charge): View | null {
  return doubts.length === 0
    ? null
    : badge("warn", "in doubt", `The bill may differ: ${doubts.map(plainName).join(", ")}`);
}

/** Describes the models and limits of a key or team. */
export function boundWords({ models, limits, output_cap: cap }: Bounds): View[] {
  const words = limitWords(limits, cap);
  return [
    models === null
      ? span({ class: "muted", key: "models" }, "all models")
      : span({ key: "models" }, models.join(", ")),
    ...(words === null ? [] : [small({ class: "muted", key: "limits" }, words)]),
  ];
}

/** Describes the limits. Returns null if there are none. */
function limitWords({ rpm, tpm, parallel }: Limits, cap: number | null): string | null {
  const words = [
    rpm !== null && `${count(rpm)} requests/min`,
    tpm !== null && `${count(tpm)} tokens/min`,
    parallel !== null && `${count(parallel)} parallel`,
    cap !== null && `${count(cap)} output tokens a request`,
  ].filter((each) => each !== false);
  return words.length === 0 ? null : words.join(" · ");
}
