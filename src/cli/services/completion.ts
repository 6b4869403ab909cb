import { flagOf, settingNames, settingOf, type SettingName } from "../../config/table.ts";
import { sessionTag } from "../../core/keys.ts";
import { refusalCodes } from "../../core/refusals.ts";
import { reportDimensions } from "../../ports/ledger.ts";
import { loadPrices } from "../price-files.ts";
import { optionFlag, usageOf, type CliCommand, type Topic } from "../command.ts";
import { ledgerSettings, priceSettings, toolsFor, type LedgerTools, type Tools } from "../tools.ts";

/** Topics of the program, by name. */
type Topics = ReadonlyMap<string, Topic>;

/** Text that may replace the word that is being typed. */
interface Candidate {
  readonly text: string;
  readonly help: string;
}

/** Candidates for a word, or "files" if the word names a file. */
type Candidates = readonly Candidate[] | "files";

/** Option or setting of a command. */
interface Flag {
  readonly flag: string;
  readonly help: string;
  /** Placeholder of its value; null for a switch. */
  readonly value: string | null;
  readonly choices?: readonly string[] | undefined;
}

/** Returns the candidates for the last word. `words` are the words after `farebox`; the last one may be empty. */
export async function candidatesFor(topics: Topics, tools: Tools, words: readonly string[]): Promise<Candidates> {
  const current = words.at(-1) ?? "";
  const found = await everyCandidate(topics, tools, words.slice(0, -1), current);
  if (found === "files") return found;
  // Leave out names in the ledger that a shell would split into several words.
  return found.filter(({ text }) => text.startsWith(current) && /^[\w./:@+=,-]+$/.test(text));
}

/** Returns the candidates for the word `current`, including those that do not start with it. */
async function everyCandidate(
  topics: Topics,
  tools: Tools,
  [first, ...rest]: readonly string[],
  current: string,
): Promise<Candidates> {
  if (first === undefined) return [...topics].map(([text, { summary }]) => ({ text, help: summary }));
  const topic = topics.get(first);
  if (topic === undefined) return [];
  const { commands } = await topic.load();
  const sub = commands.find(({ usage }) => usageOf(usage).word === rest[0]);
  const main = commands.find(({ usage }) => usageOf(usage).word === undefined);
  const words = commands.flatMap(({ usage, declaration: { summary = "" } }) => {
    const { word } = usageOf(usage);
    return word === undefined ? [] : [{ text: word, help: summary }];
  });
  if (rest.length === 0 && main === undefined) return words;
  const command = rest.length > 0 ? (sub ?? main) : main;
  if (command === undefined) return [];
  const own = await candidatesOf(tools, command, command === sub ? rest.slice(1) : rest, current);
  return rest.length > 0 || own === "files" ? own : [...words, ...own];
}

/** Returns the candidates for the word `current`, which follows the words `before` of a command. */
async function candidatesOf(
  tools: Tools,
  { usage, declaration }: CliCommand,
  before: readonly string[],
  current: string,
): Promise<Candidates> {
  const flags = flagsOf(declaration);
  const given: Record<string, string> = {};
  let position = 0;
  let flagBefore: Flag | undefined;
  let mayBeFlag = true;
  for (const word of before) {
    const [name = "", value] = splitFlag(word);
    if (flagBefore !== undefined) {
      given[flagBefore.flag] = word;
      flagBefore = undefined;
    } else if (mayBeFlag && word === "--") mayBeFlag = false;
    else if (mayBeFlag && word.startsWith("--")) {
      const flag = flags.find((each) => each.flag === name);
      if (value !== undefined) given[name] = value;
      else if (flag !== undefined && flag.value !== null) flagBefore = flag;
      given[name] ??= "";
    } else {
      position += 1;
      if (declaration.passThrough === true) mayBeFlag = false;
    }
  }
  const values = (value: string, choices: readonly string[] | undefined) =>
    choices === undefined ? namesFor(tools, value, given, current) : choices.map(plain);
  if (flagBefore !== undefined) return await values(flagBefore.value ?? "", flagBefore.choices);
  const [name = "", begun] = splitFlag(current);
  const joined = begun === undefined ? undefined : flags.find(({ flag }) => flag === name);
  if (mayBeFlag && joined !== undefined && joined.value !== null) {
    const found = await values(joined.value, joined.choices);
    return found === "files" ? found : found.map(({ text, help }) => ({ text: `${name}=${text}`, help }));
  }
  if (mayBeFlag && current.startsWith("-"))
    return flags.filter(({ flag }) => given[flag] === undefined).map(({ flag, help }) => ({ text: flag, help }));
  const args = usageOf(usage).args.split(" ");
  const arg = args[position] ?? (args.at(-1)?.includes("...") === true ? args.at(-1) : undefined);
  return arg === undefined || arg === "" ? [] : await values(arg, undefined);
}

const plain = (text: string): Candidate => ({ text, help: "" });

/** Splits "--key=alice" into flag and value. Without "=", the value is undefined. */
function splitFlag(word: string): [string, string | undefined] {
  const at = word.startsWith("--") ? word.indexOf("=") : -1;
  return at === -1 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)];
}

function flagsOf({ options = {}, settings, ledger }: CliCommand["declaration"]): Flag[] {
  const used = settings === "all" ? settingNames : (settings ?? (ledger === undefined ? [] : ledgerSettings));
  return [
    ...Object.entries(options).map(([name, { value = null, help, choices }]) => ({
      flag: optionFlag(name),
      help,
      value,
      choices,
    })),
    ...used.flatMap((name) => settingFlag(name)),
    { flag: "--help", help: "display help for command", value: null },
  ];
}

function settingFlag(name: SettingName): Flag[] {
  const { kind, meaning } = settingOf(name);
  if (kind.secret) return [];
  const choices = kind.placeholder.includes("|") ? kind.placeholder.split("|") : undefined;
  return [{ flag: flagOf(name), help: meaning, value: `<${kind.placeholder}>`, choices }];
}

/** Placeholders of files and folders. */
const filePlaceholders = new Set(["file", "folder", "path", "table", "from", "to", "a", "b", "sources", "command"]);

/**
 * Returns the values that a placeholder stands for. Reads them from the ledger and the prices that the command line
 * names.
 */
async function namesFor(
  tools: Tools,
  placeholder: string,
  given: Readonly<Record<string, string>>,
  current: string,
): Promise<Candidates> {
  const kind = placeholder.replaceAll(/[<>[\].]/g, "");
  if (filePlaceholders.has(kind)) return "files";
  switch (kind) {
    case "scope":
      return await scopeNames(tools, given, current);
    case "key":
    case "team":
    case "admin":
    case "label":
    case "tag":
      return await ledgerNames(tools, given, kind);
    case "model":
      return (await modelNames(tools, given)).map(plain);
    case "patterns":
      return afterComma(current, ["all", ...(await modelNames(tools, given))]);
    case "dimensions":
      return afterComma(current, reportDimensions);
    case "when":
      return ["today", "yesterday", "week", "month", "last-month"].map(plain);
    case "code":
      return refusalCodes.map(plain);
    case "requirements":
      return afterComma(current, ["none", "user", "tag:session"]);
    case "shell":
      return ["bash", "zsh", "fish"].map(plain);
    default:
      return [];
  }
}

/** Beginnings of conditions for which not all values are known. */
const openConditions: readonly Candidate[] = [
  { text: "model:", help: "models with this name or pattern, such as gpt-5*" },
  { text: "user:", help: "requests of this user" },
  { text: "label:", help: "keys with this label, as NAME=VALUE" },
  { text: "tag:", help: "requests with this tag, as NAME=VALUE" },
];

/** Returns scopes with one condition. Lists models only after `model:`, because there are many. */
async function scopeNames(
  tools: Tools,
  given: Readonly<Record<string, string>>,
  current: string,
): Promise<readonly Candidate[]> {
  const model = "model:";
  if (current.startsWith(model)) return (await modelNames(tools, given)).map((id) => plain(model + id));
  const names = await ledgerNames(tools, given, "scope");
  return [...names, ...openConditions.filter(({ text }) => !names.some((each) => each.text.startsWith(text)))];
}

/** Returns candidates that append each text to the items before the last comma. */
function afterComma(current: string, texts: readonly string[]): Candidate[] {
  const before = current.slice(current.indexOf("=") + 1).replace(/[^,]*$/, "");
  return texts.map((text) => plain(before + text));
}

async function ledgerNames(
  tools: Tools,
  given: Readonly<Record<string, string>>,
  kind: "key" | "team" | "admin" | "scope" | "label" | "tag",
): Promise<Candidate[]> {
  const located = locate(tools, given);
  if (!located.ok) return [];
  const found = await located.value.withLedger("read", (open) => readNames(open, kind));
  return Array.isArray(found) ? found : [];
}

async function readNames({ keys, teams, admins }: LedgerTools, kind: string): Promise<Candidate[]> {
  const keysFound = async () =>
    (await keys.list())
      .filter(({ revokedAt }) => revokedAt === null)
      .map(({ name, team }) => ({ text: name, help: team === null ? "key" : `key of team ${team}` }));
  const teamsFound = async () => (await teams.list()).map(({ name }) => ({ text: name, help: "team" }));
  if (kind === "key") return await keysFound();
  if (kind === "team") return await teamsFound();
  if (kind === "admin")
    return (await admins.list())
      .filter(({ revokedAt }) => revokedAt === null)
      .map(({ name, role }) => ({ text: name, help: role }));
  const all = await keys.list();
  const pairsOf = (name: "labels" | "tags") =>
    [...new Set(all.flatMap((key) => Object.entries(key[name]).map((pair) => pair.join("="))))].sort();
  if (kind === "label") return pairsOf("labels").map(plain);
  if (kind === "tag") return pairsOf("tags").map(plain);
  const tagNames = new Set([sessionTag, ...all.flatMap(({ tags }) => Object.keys(tags))]);
  const users = new Set(all.flatMap(({ user }) => user ?? []));
  const teamNames = await teamsFound();
  return [
    { text: "all", help: "all requests together" },
    { text: "each-key", help: "each key separately" },
    { text: "each-model", help: "each model separately" },
    { text: "each-user", help: "each user separately" },
    ...(await keysFound()).map(({ text, help }) => ({ text: `key:${text}`, help })),
    ...teamNames.map(({ text }) => ({ text: `team:${text}`, help: "all keys of the team together" })),
    ...teamNames.map(({ text }) => ({ text: `each-key:${text}`, help: "each key of the team separately" })),
    ...pairsOf("labels").map((pair) => ({ text: `label:${pair}`, help: "keys with this label" })),
    ...[...users].sort().map((user) => ({ text: `user:${user}`, help: "requests of this user" })),
    ...pairsOf("tags").map((pair) => ({ text: `tag:${pair}`, help: "requests with this tag" })),
    ...[...tagNames].sort().map((name) => ({ text: `each-tag:${name}`, help: "each value of the tag separately" })),
  ];
}

async function modelNames(tools: Tools, given: Readonly<Record<string, string>>): Promise<string[]> {
  const located = locate(tools, given);
  if (!located.ok) return [];
  const loading = await loadPrices(tools.prices, located.value.settings.pricing);
  return loading.ok ? loading.catalogue.list(tools.clock.now()).map(({ id }) => id) : [];
}

/** Returns tools for the ledger and the prices that the command line, the environment and the settings file name. */
function locate(tools: Tools, given: Readonly<Record<string, string>>) {
  const uses = [...ledgerSettings, ...priceSettings] as const;
  return toolsFor(tools, Object.fromEntries(uses.map((name) => [name, given[flagOf(name)]])), { uses });
}
