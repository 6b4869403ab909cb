import type { Chance } from "./world.ts";

/** Members of an answer that the gateway writes output into. The proxy does not know the last three. */
export const members = ["content", "custom_input", "reasoning_details", "wonder", "nested", "in_tool_call"] as const;
export type Member = (typeof members)[number];

export interface Part {
  readonly member: Member;
  readonly text: string;
}

const unknownMembers: ReadonlySet<Member> = new Set(["wonder", "nested", "in_tool_call"]);

export function isUnknown({ member, text }: Part): boolean {
  return unknownMembers.has(member) && text !== "";
}

/** Picks the members of one answer. Most answers have only `content`. */
export function membersOf(chance: Chance): readonly [Member, ...Member[]] {
  if (chance.happens(0.6)) return ["content"];
  return chance.happens(0.3) ? [chance.pick(members)] : [chance.pick(members), chance.pick(members), "content"];
}

/** Returns a stream's delta that adds one part. */
export function deltaOf({ member, text }: Part): object {
  switch (member) {
    case "content":
      return { content: text };
    case "custom_input":
      return { tool_calls: [{ index: 0, type: "custom", custom: { input: text } }] };
    case "reasoning_details":
      return { reasoning_details: [{ type: "reasoning.text", index: 0, text }] };
    case "wonder":
      return { wonder: text };
    case "nested":
      return { aside: { depth: 2, thoughts: [{ said: text }] } };
    case "in_tool_call":
      return { tool_calls: [{ index: 0, marvel: text }] };
  }
}

/** Returns a complete message with these parts. */
export function messageOf(parts: readonly Part[]): object {
  const texts = (member: Member) =>
    parts.filter((part) => part.member === member && part.text !== "").map(({ text }) => text);
  const calls = [
    ...texts("custom_input").map((input) => ({ id: "t", type: "custom", custom: { input } })),
    ...texts("in_tool_call").map((marvel) => ({ id: "t", type: "custom", marvel })),
  ];
  const [details, wonder, thoughts] = [texts("reasoning_details"), texts("wonder"), texts("nested")];
  return {
    role: "assistant",
    content: texts("content").join(""),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(details.length > 0 && { reasoning_details: details.map((text) => ({ type: "reasoning.text", text })) }),
    ...(wonder.length > 0 && { wonder: wonder.join("") }),
    ...(thoughts.length > 0 && { aside: { depth: 2, thoughts: thoughts.map((said) => ({ said })) } }),
  };
}
