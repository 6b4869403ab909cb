import { InvalidArgumentError, Option, type Command } from "commander";
import type { SettingName } from "../config/table.ts";
import { didYouMean } from "../core/fault.ts";
import { fail, note, printJson, type ExitCode, type Io, type CommandFailure } from "./io.ts";
import { addSettingFlags, settingFlagsOf } from "./setting-flags.ts";
import { ledgerSettings, toolsFor, type Surroundings, type Intent, type LedgerTools, type Tools } from "./tools.ts";

/** Option of a command. Its flag follows from its name: `outputCap` is `--output-cap`, `noTeam` is `--no-team`. */
interface OptionDeclaration {
  readonly help: string;
  /** Placeholder of the value in `--help`: "<duration>", "<errors...>". Absent for a switch. */
  readonly value?: `<${string}>`;
  /**
   * Parses a text, or throws commander's InvalidArgumentError. If the option may be repeated, `before` is the value
   * that the earlier texts gave.
   */
  readonly parse?: (text: string, before: never) => unknown;
  readonly choices?: readonly string[];
  readonly default?: unknown;
  /** Describes the default in `--help` if the value itself does not. */
  readonly defaultShown?: string;
  readonly required?: true;
}

type Options = Readonly<Record<string, OptionDeclaration>>;

type Parsed<D> = D extends { parse: (text: string, before: never) => infer T }
  ? T
  : D extends { choices: readonly (infer C)[] }
    ? D extends { value: `<${string}...>` }
      ? readonly C[]
      : C
    : string;

type Value<D> = D extends { value: string }
  ? Parsed<D> | (D extends { default: unknown } | { required: true } ? never : undefined)
  : boolean;

/** Values of a command's options. A missing switch is false. */
export type Given<O> = { readonly [N in keyof O]: Value<O[N]> };

type Param<W extends string> = W extends `<${string}...>`
  ? [readonly string[]]
  : W extends `<${string}>`
    ? [string]
    : W extends `[${string}...]`
      ? [readonly string[]]
      : W extends `[${string}]`
        ? [string | undefined]
        : [];

/** Types of the arguments in a command's usage: "keys show <key>" has one argument. */
type Params<U extends string> = U extends `${infer W} ${infer Rest}` ? [...Param<W>, ...Params<Rest>] : Param<U>;

type Success<R> = Exclude<R, { readonly ok: false } | number>;

interface Declaration<P extends unknown[], O, L, R> {
  /** Line in the list of commands. A command of one word has its summary in the table of topics. */
  readonly summary?: string;
  readonly options?: O;
  /** Settings that the command loads before it runs; each has a flag. Default: the ledger's settings if `ledger` is given. */
  readonly settings?: "all" | readonly SettingName[];
  /** Settings without which the command does not run. */
  readonly needs?: readonly SettingName[];
  /** True if `run` itself loads the settings and reports their problems. */
  readonly settingsUnread?: true;
  /** Use for which the ledger is opened before `run`. */
  readonly ledger?: L;
  /** Text below the options in `--help`. */
  readonly help?: string | (() => string);
  readonly examples: readonly string[];
  /** Treats options after the first argument as arguments too. */
  readonly passThrough?: true;
  /** Checks the input before anything is opened, so that wrong input does not create a ledger. */
  readonly check?: (options: Given<O>, ...params: P) => CommandFailure | null;
  /**
   * Runs the command. Returns a value for `print` and `json`, a failure, or an exit code if it has already printed its
   * output.
   */
  readonly run: (tools: [L] extends [Intent] ? LedgerTools : Tools, options: Given<O>, ...params: P) => Promise<R>;
  /** Converts a success to JSON for `--json`. Default: the value itself. */
  readonly json?: (value: Success<R>, tools: Tools) => unknown;
  readonly print?: (io: Io, value: Success<R>, options: Given<O>) => void;
  /** Returns notes for stderr, written after `print` or the JSON. */
  readonly notes?: (value: Success<R>, io: Io, options: Given<O>) => readonly string[];
  /** Returns the exit code of a success. Default: 0. */
  readonly code?: (value: Success<R>) => ExitCode;
}

/** Command whose input types are erased, so that all commands fit in one list. */
export interface CliCommand {
  /** "keys show <key>" */
  readonly usage: string;
  readonly declaration: Declaration<unknown[], Options, Intent | undefined, unknown>;
}

/** A command, or a group of commands whose names begin with the same word. */
export interface Topic {
  /** Usage as the program's help shows it. */
  readonly term: string;
  readonly summary: string;
  /** Imports the commands of the topic. */
  readonly load: () => Promise<{ readonly commands: readonly CliCommand[] }>;
}

/** Declares a command: its words and arguments, what it does, and its help. */
export function command<
  U extends string,
  const O extends Options = {},
  L extends Intent | undefined = undefined,
  R = unknown,
>(usage: U, declaration: Declaration<Params<U>, O, L, R>): CliCommand {
  return {
    usage,
    declaration: declaration as unknown as CliCommand["declaration"],
  };
}

/** The `--json` option of most commands. */
export const json = { help: "print JSON" } as const;

/** Adds a command to the program, which already contains the command's topic (its first word). */
export function addCommand(
  program: Command,
  { usage, declaration }: CliCommand,
  surroundings: Surroundings,
  onExit: (code: number) => void,
): void {
  const { summary, options = {}, settings, ledger, help, examples, passThrough } = declaration;
  const { topic, word, args } = usageOf(usage);
  const parent = program.commands.find((each) => each.name() === topic) ?? program;
  const added = word === undefined ? parent : parent.command(word).description(summary ?? "");
  if (args !== "") added.arguments(args);
  for (const [name, option] of Object.entries(options)) added.addOption(optionOf(name, option));
  if (passThrough === true) added.passThroughOptions();
  const used = settings ?? (ledger === undefined ? [] : ledgerSettings);
  addSettingFlags(added, used === "all" ? undefined : used);
  if (help !== undefined) added.addHelpText("after", typeof help === "string" ? () => help : help);
  const title = examples.length === 1 ? "Example:" : "Examples:";
  added.addHelpText("after", `\n${title}\n${examples.map((line) => `  $ ${line}`).join("\n")}`);
  added.action(async (...args: unknown[]) => onExit(await run(surroundings, added, declaration, args.slice(0, -2))));
}

/**
 * Splits a usage such as "keys show <key>" into topic, word and arguments. `word` is undefined if the usage has only
 * one word.
 */
export function usageOf(usage: string) {
  const [, topic = "", word, args = ""] = /^(\w+)(?: (\w+))?(?: ([<[].*))?$/.exec(usage) ?? [];
  return { topic, word, args };
}

/** Returns the flag of an option: `outputCap` is `--output-cap`. */
export function optionFlag(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function optionOf(name: string, { help, value, parse, choices, required, ...rest }: OptionDeclaration): Option {
  const flag = optionFlag(name);
  const option = new Option(value === undefined ? flag : `${flag} ${value}`, help);
  if (choices !== undefined) setChoices(option, choices);
  if (parse !== undefined) option.argParser(parse as (text: string) => unknown);
  if (rest.default !== undefined) option.default(rest.default, rest.defaultShown);
  return option.makeOptionMandatory(required === true);
}

/** Lets an option accept only these values. Suggests the one that a mistyped value means. */
function setChoices(option: Option, choices: readonly string[]): void {
  const parse = option.choices(choices).parseArg;
  option.argParser((text, before) => {
    const hint = choices.includes(text) ? "" : didYouMean(text, choices);
    if (hint !== "") throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}${hint}`);
    return parse?.(text, before);
  });
}

async function run(
  surroundings: Surroundings,
  added: Command,
  declaration: CliCommand["declaration"],
  params: unknown[],
): Promise<number> {
  const { io } = surroundings;
  const { settings, ledger, needs, settingsUnread, check, json: toJson = (value) => value } = declaration;
  const failed = (problem: CommandFailure) => fail(io, problem.message, problem.code);
  const options = givenOptions(added, declaration.options ?? {}) as Given<Options>;
  const wrong = check?.(options, ...params) ?? null;
  if (wrong !== null) return failed(wrong);
  const uses = settingsUnread === true ? undefined : (settings ?? (ledger && ledgerSettings));
  const tools = toolsFor(surroundings, settingFlagsOf(added), uses && { uses, ...(needs && { needs }) });
  if (!tools.ok) return failed(tools);
  const work = (given: Tools) => declaration.run(given, options, ...params);
  const result = await (ledger === undefined ? work(tools.value) : tools.value.withLedger(ledger, work));
  if (typeof result === "number") return result;
  if (isFailure(result)) return failed(result);
  const value = result as Success<unknown>;
  if (options["json"] === true) printJson(io, toJson(value, tools.value));
  else declaration.print?.(io, value, options);
  for (const line of declaration.notes?.(value, io, options) ?? []) note(io, line);
  return declaration.code?.(value) ?? 0;
}

function givenOptions(added: Command, options: Options): Record<string, unknown> {
  const opts: Record<string, unknown> = added.opts();
  return Object.fromEntries(
    Object.entries(options).map(([name, { value }]) => {
      const negated = /^no[A-Z]/.test(name) ? name.charAt(2).toLowerCase() + name.slice(3) : null;
      if (negated !== null) return [name, opts[negated] === false];
      if (value === undefined) return [name, opts[name] === true];
      return [name, opts[name] === false ? undefined : opts[name]];
    }),
  );
}

function isFailure(result: unknown): result is CommandFailure {
  return typeof result === "object" && result !== null && "ok" in result && result.ok === false;
}
