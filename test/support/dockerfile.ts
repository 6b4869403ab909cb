import { DockerfileParser, ModifiableInstruction } from "dockerfile-ast";

/** One instruction: its keyword, its flags by name, and the rest as written, with lines joined. */
export interface Instruction {
  readonly keyword: string;
  readonly flags: Readonly<Record<string, string>>;
  readonly rest: string;
}

/** One `FROM` and the instructions after it. */
export interface Stage {
  readonly name: string | null;
  /** Image of a registry, or the name of an earlier stage. */
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

/** Returns a stage's instructions after those of the stages that it is based on. */
export function withAncestors(stage: Stage, stages: readonly Stage[]): Instruction[] {
  const base = stages.find(({ name }) => name === stage.from);
  return [...(base === undefined ? [] : withAncestors(base, stages)), ...stage.instructions];
}

/** Returns the arguments of the last instruction of a keyword, which is the one in force. */
export function inForce(instructions: readonly Instruction[], keyword: string): string {
  return instructions.findLast((instruction) => instruction.keyword === keyword)?.rest ?? "";
}

/** Returns the variables that all ENV instructions together set. */
export function environmentOf(instructions: readonly Instruction[]): Record<string, string> {
  const pairs = instructions.filter(({ keyword }) => keyword === "ENV").flatMap(({ rest }) => rest.split(" "));
  return Object.fromEntries(pairs.map((pair) => pair.split("=", 2)));
}
