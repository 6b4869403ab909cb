/** The reasons why a posted amount may differ from the gateway's bill, in the order in which they are shown. */
export const doubts = [
  /** The answer carries text in a member that Farebox does not know. */
  "unknown_output",
  /** The request has a field that Farebox does not know, or one whose cost the answer does not show. */
  "unknown_field",
  /** Another model answered than the requested one. */
  "served_model",
  /** A service tier answered for which no rate is known. */
  "service_tier",
  /** The answer used a hosted tool whose fee is not known. */
  "hosted_tool",
  /** The reported usage contradicts itself; the more expensive reading is posted. */
  "usage_contradicts",
  /** The reported usage has a count that Farebox does not know. */
  "usage_unknown_class",
  /** The task's record does not state its consumption. */
  "task_consumption",
  /** The amount is based on the run time of a model with hidden reasoning. */
  "time_based",
  /** The amount is based on the catalogue's bound for images, audio or files. */
  "image_bound",
] as const;
export type Doubt = (typeof doubts)[number];

/** Each doubt once, in the order of `doubts`. */
export function mergeDoubts(...lists: readonly (readonly Doubt[] | undefined)[]): readonly Doubt[] {
  if (lists.every((list) => list === undefined || list.length === 0)) return noDoubts;
  return doubts.filter((doubt) => lists.some((list) => list?.includes(doubt)));
}

export const noDoubts: readonly Doubt[] = [];

/** Returns the stored form: names separated by commas; null for none. */
export function formatDoubts(list: readonly Doubt[] | undefined): string | null {
  return list === undefined || list.length === 0 ? null : mergeDoubts(list).join(",");
}

/** Parses the output of `formatDoubts`; skips names that a later release added. */
export function parseDoubts(text: string | null): readonly Doubt[] {
  if (text === null) return noDoubts;
  const names = text.split(",");
  return doubts.filter((doubt) => names.includes(doubt));
}
