import { isLoopbackHost } from "../core/addresses.ts";
import { didYouMean } from "../core/fault.ts";
import { shownDatabase } from "./database.ts";
import { hiddenText } from "./secret.ts";
import { nestSettings, type Settings } from "./settings.ts";
import {
  environmentSource,
  fileSource,
  flagSource,
  unknownVariables,
  type Environment,
  type Flags,
  type Origin,
  type ReadFile,
  type Source,
} from "./sources.ts";
import { anyReceiver, readOutbound } from "./outbound.ts";
import { readTracing } from "./tracing.ts";
import { settingNames, settingOf, variableOf, type SettingName, type SettingValues } from "./table.ts";

export interface LoadRequest {
  readonly env: Environment;
  readonly flags: Flags;
  readonly readFile: ReadFile;
  /** Settings that the command reads. All other settings keep their defaults and are not checked. */
  readonly uses: "all" | readonly SettingName[];
  /** Settings that must be given. */
  readonly needs?: readonly SettingName[];
}

/** Setting as `config show` prints it. */
interface SettingInForce {
  readonly name: SettingName;
  /** Text of the setting, or of its default; `<hidden>` for a secret; null if it has neither a text nor a default. */
  readonly value: string | null;
  readonly from: Origin;
}

export type LoadResult =
  | {
      readonly ok: true;
      readonly settings: Settings;
      readonly inForce: readonly SettingInForce[];
      /** Settings file that was read; null if there is none. */
      readonly file: string | null;
    }
  /** One line for each problem: the setting and what it allows. */
  | { readonly ok: false; readonly problems: readonly string[] };

/** Reads the settings that the request uses. Precedence: flag, environment variable, settings file, default. */
export function loadSettings(request: LoadRequest): LoadResult {
  const file = fileSource(request.env, request.readFile);
  const sources = [flagSource(request.flags), environmentSource(request.env), file.source];
  const problems = [...unknownVariables(request.env), ...file.problems];
  const used = new Set<SettingName>(request.uses === "all" ? settingNames : request.uses);

  const found = settingNames.map((name) => readSetting(name, used.has(name) ? sources : [], request.readFile));
  problems.push(...found.flatMap(({ label, problem }) => (problem === undefined ? [] : `${label} ${problem}`)));
  problems.push(...missing(request.needs ?? [], found));
  const values = Object.fromEntries(found.map(({ name, value }) => [name, value])) as unknown as SettingValues;
  problems.push(...contradictions(values, found));
  const { tracing, problems: tracingProblems } =
    request.uses === "all" ? readTracing(request.env) : { tracing: null, problems: [] };
  problems.push(...tracingProblems);
  const { outbound, problems: outboundProblems } = readOutbound(request.env, targetsOf(values));
  problems.push(...outboundProblems);
  if (problems.length > 0) return { ok: false, problems };

  const shown = ({ name, text }: ReadSetting) => {
    if (text === null) return null;
    if (name === "database") return shownDatabase(values.database);
    return settingOf(name).kind.secret ? hiddenText : text;
  };
  const inForce = found.map((each) => ({ name: each.name, value: shown(each), from: each.from }));
  return { ok: true, settings: { ...nestSettings(values), tracing, outbound }, inForce, file: file.path };
}

/** Returns the addresses to which a command with these settings connects. Settings with a problem have no value. */
function targetsOf({ gateway_url: gateway, alert_webhook: alerts, public_url: own }: Partial<SettingValues>): URL[] {
  return [
    ...(gateway ? [new URL(gateway.origin)] : []),
    ...(alerts ? [new URL(alerts.reveal())] : []),
    // With the webhook relay, clients choose further addresses.
    ...(own ? [anyReceiver] : []),
  ];
}

interface ReadSetting {
  readonly name: SettingName;
  /** Value of the setting. Undefined if there is a problem, so that no further rule checks it. */
  readonly value: unknown;
  readonly text: string | null;
  readonly from: Origin;
  /** Name of the setting in its source. */
  readonly label: string;
  /** Completes the sentence "FAREBOX_X …". */
  readonly problem?: string | undefined;
}

function readSetting(name: SettingName, sources: readonly Source[], readFile: ReadFile): ReadSetting {
  const { kind, default: fallback = null } = settingOf(name);
  const given = sources
    .values()
    .map((source) => textIn(source, name, readFile))
    .find((each) => each !== null);
  const { text, problem, ...found } = given ?? { label: variableOf(name), from: "default", text: fallback };
  if (text === null) return { name, ...found, text, value: problem === undefined ? null : undefined, problem };
  const reading = kind.read(text);
  return reading.ok
    ? { name, ...found, text, value: reading.value, problem: undefined }
    : {
        name,
        ...found,
        text,
        value: undefined,
        problem: reading.problem + givenText(name, text) + didYouMean(text, reading.choices ?? []),
      };
}

/** Longest text that a message repeats. A credential that was given to the wrong setting is longer. */
const givenTextMax = 24;

/**
 * Returns the end of a message that says what a setting must be: `, not "abc"`. Empty if the text is long or could be
 * secret.
 */
function givenText(name: SettingName, text: string): string {
  const { secret, fileForm } = settingOf(name).kind;
  const isShown = !secret && !fileForm && text.length <= givenTextMax && !/[@?#]/.test(text);
  return isShown ? `, not ${JSON.stringify(text)}` : "";
}

/** Text of a setting in a source. The text is null if it cannot be read; `problem` then states why. */
type TextInSource = Pick<ReadSetting, "label" | "from" | "text" | "problem">;

/**
 * Reads a setting's text from one source, or from the file that the setting's `_file` form names in this source.
 * Returns null if the source gives neither.
 */
function textIn(
  { origin: from, get, label: labelOf }: Source,
  name: SettingName,
  readFile: ReadFile,
): TextInSource | null {
  const label = labelOf(name);
  const text = get(name);
  const path = settingOf(name).kind.fileForm ? get(`${name}_file`) : undefined;
  if (path === undefined) return text === undefined ? null : { label, from, text };
  const file = { from, label: labelOf(`${name}_file`), text: null };
  if (text !== undefined) return { ...file, label, problem: `and ${file.label} are both given; give one of them` };
  const read = readFile(path);
  if (!read.ok) return { ...file, problem: `names a file that cannot be read (${read.code})` };
  const content = read.text.trim();
  return content === "" ? { ...file, problem: "names a file that is empty" } : { ...file, text: content };
}

function missing(needs: readonly SettingName[], found: readonly ReadSetting[]): string[] {
  return found
    .filter(({ name, value }) => needs.includes(name) && value === null)
    .map(
      ({ name, label }) =>
        `${label} is not set: ${settingOf(name).meaning}; export it, run farebox init, or try farebox demo`,
    );
}

/** Checks rules that concern several settings. A setting with an invalid text is undefined here. */
function contradictions(values: SettingValues, found: readonly ReadSetting[]): string[] {
  const problems: string[] = [];
  const foundAt = (name: SettingName) => found.find((each) => each.name === name);
  const refuse = (name: SettingName, problem: string) => problems.push(`${foundAt(name)?.label} ${problem}`);
  const { gateway_url: gateway, database } = values;
  const isPlain = gateway?.origin.startsWith("http:") && !isLoopbackHost(new URL(gateway.origin).hostname);
  if (isPlain && values.gateway_insecure === false) {
    refuse(
      "gateway_url",
      "must begin with https://: plain http would send the gateway key unencrypted" +
        ` (${variableOf("gateway_insecure")}=1 permits it)`,
    );
  }
  if (database?.kind === "postgres" && database.hasPassword && foundAt("database")?.from === "flag") {
    const variable = variableOf("database");
    refuse(
      "database",
      "must not contain a password, which other users of this machine could see: " +
        `put it in ${variable} or ${variable}_FILE`,
    );
  }
  if (values.auth === "open" && values.host !== undefined && !isLoopbackHost(values.host)) {
    refuse(
      "auth",
      "may be open only when listening on loopback: " +
        `set ${variableOf("host")} to 127.0.0.1, or ${variableOf("auth")} to keys`,
    );
  }
  if (values.alert_secret != null && values.alert_webhook === null)
    refuse("alert_secret", `has no effect without ${variableOf("alert_webhook")}: set both, or neither`);
  if (values.body_memory < values.body_limit)
    refuse("body_memory", `must not be smaller than ${variableOf("body_limit")}`);
  return problems;
}
