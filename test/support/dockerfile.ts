import { DockerfileParser, ModifiableInstruction } from "dockerfile-ast";

/** One instruction: its keyword, its flags by name, and the rest as it is written, lines joined. */
export interface Instruction {
  readonly keyword: string;
  readonly flags: Readonly<Record<string, string>>;
  readonly rest: string;
}

/** One `FROM` and what follows it. */
export interface Stage {
  readonly name: string | null;
  /** An image of a registry, or the name of an earlier stage. */
  readonly from: string;
  readonly instructions: readonly Instruction[];
}

export function stagesOf(text: string): Stage[] {
  const stages: { name: string | null; from: string; instructions: Instruction[] }[] = [];
  for (const parsed of DockerfileParser.parse(text).getInstructions()) {
    const words = (parsed.getArgumentsContent() ?? "").replaceAll(/\\\n\s*/g, "").split(/\s+/);
    const found = parsed instanceof ModifiableInstruction ? parsed.getFlags() : [];
    const flags = Object.fromEntries(found.map((flag) => [flag.getName(), flag.getValue() ?? ""]));
    const instruction = { keyword: parsed.getKeyword(), flags, rest: words.join(" ") };
    if (instruction.keyword !== "FROM") stages.at(-1)?.instructions.push(instruction);
    else
      stages.push({
        from: words[0] ?? "",
        name: words[1]?.toUpperCase() === "AS" ? (words[2] ?? null) : null,
        instructions: [],
      });
  }
  return stages;
}

/** A stage's instructions after those of the stages that it is built on. */
export function withAncestors(stage: Stage, stages: readonly Stage[]): Instruction[] {
  const base = stages.find(({ name }) => name === stage.from);
  return [...(base === undefined ? [] : withAncestors(base, stages)), ...stage.instructions];
}

/** The last one of a keyword, which is the one in force. */
export function inForce(instructions: readonly Instruction[], keyword: string): string {
  return instructions.findLast((instruction) => instruction.keyword === keyword)?.rest ?? "";
}

/** `A=1 B=2`, as all ENV instructions together set them. */
export function environmentOf(instructions: readonly Instruction[]): Record<string, string> {
  const pairs = instructions.filter(({ keyword }) => keyword === "ENV").flatMap(({ rest }) => rest.split(" "));
  return Object.fromEntries(pairs.map((pair) => pair.split("=", 2)));
}
