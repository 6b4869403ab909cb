import { hostOf, isLoopback } from "./addresses.ts";
import { shownDatabase, type DatabaseSetting } from "./database.ts";
import { hiddenText } from "./secret.ts";
import { nested, type Settings } from "./settings.ts";
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
import { settingNames, settingOf, variableOf, type SettingName, type SettingValues } from "./table.ts";

export interface LoadRequest {
  readonly env: Environment;
  readonly flags: Flags;
  readonly readFile: ReadFile;
  readonly isTimeZone: (name: string) => boolean;
  /** Settings that the command reads. The others keep their defaults and are not checked. */
  readonly uses: "all" | readonly SettingName[];
  /** Settings that must be given. */
  readonly needs?: readonly SettingName[];
}

/** Setting as `config show` prints it. */
export interface SettingInForce {
  readonly name: SettingName;
  /** Text of the setting; hidden for a secret, null if it is not given. */
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

/** Reads all settings. Precedence: flag, environment variable, settings file, default. */
export function loadSettings(request: LoadRequest): LoadResult {
  const file = fileSource(request.env, request.readFile);
  const sources = [flagSource(request.flags), environmentSource(request.env), file.source];
  const problems = [...unknownVariables(request.env), ...file.problems];
  const used = new Set<SettingName>(request.uses === "all" ? settingNames : request.uses);

  const found = settingNames.map((name) => readSetting(name, used.has(name) ? sources : [], request.readFile));
  for (const setting of found) if (setting.problem !== null) problems.push(setting.problem);
  const values = Object.fromEntries(found.map(({ name, value }) => [name, value])) as unknown as SettingValues;
  const labelOf = (name: SettingName) => found.find((setting) => setting.name === name)?.label ?? variableOf(name);
  problems.push(...missing(request.needs ?? [], found));
  problems.push(...contradictions(values, labelOf, request.isTimeZone));

  if (problems.length > 0) return { ok: false, problems };
  const inForce = found.map(({ name, text, from }) => ({
    name,
    value: text !== null && settingOf(name).kind.secret ? hiddenText : text,
    from,
  }));
  return { ok: true, settings: nested(values), inForce, file: file.path };
}

interface Found {
  readonly name: SettingName;
  /** Value of the setting. Undefined if there is a problem, so that no further rule checks it. */
  readonly value: unknown;
  readonly text: string | null;
  readonly from: Origin;
  /** Name of the setting in its source. */
  readonly label: string;
  readonly problem: string | null;
}

function readSetting(name: SettingName, sources: readonly Source[], readFile: ReadFile): Found {
  const { kind, default: fallback } = settingOf(name);
  for (const source of sources) {
    const written = textIn(source, name, kind.fileForm, readFile);
    if (written === null) continue;
    const { label } = written;
    const found = { name, from: source.origin, label };
    const refused = (problem: string | undefined): Found => ({
      ...found,
      value: undefined,
      text: null,
      problem: `${label} ${problem}`,
    });
    if (!written.ok) return refused(written.problem);
    const { data, error } = kind.schema.safeParse(written.text);
    if (error) return refused(error.issues[0]?.message);
    if (name !== "database") return { ...found, value: data, text: written.text, problem: null };
    const database = data as DatabaseSetting;
    if (source.origin === "flag" && database.kind === "postgres" && database.hasPassword)
      return refused(
        `must not hold a password, which other users of this machine could see: put it in ${variableOf(name)} or ${variableOf(name)}_FILE`,
      );
    return { ...found, value: data, text: shownDatabase(database), problem: null };
  }
  const value = fallback === null ? null : kind.schema.parse(fallback);
  return { name, value, text: fallback, from: "default", label: variableOf(name), problem: null };
}

type Written =
  | { readonly ok: true; readonly label: string; readonly text: string }
  | { readonly ok: false; readonly label: string; readonly problem: string };

/**
 * Reads a setting's text from one source, or from the file that the `_file` form names there. Returns null if it is not given.
 */
function textIn(source: Source, name: SettingName, fileForm: boolean, readFile: ReadFile): Written | null {
  const text = source.get(name);
  const path = fileForm ? source.get(`${name}_file`) : undefined;
  const label = source.label(name);
  if (path === undefined) return text === undefined ? null : { ok: true, label, text };
  const fileLabel = source.label(`${name}_file`);
  if (text !== undefined) return { ok: false, label, problem: `and ${fileLabel} are both given; give one of them` };
  const read = readFile(path);
  if (!read.ok) return { ok: false, label: fileLabel, problem: `names a file that cannot be read (${read.code})` };
  const content = read.text.trim();
  if (content === "") return { ok: false, label: fileLabel, problem: "names a file that is empty" };
  return { ok: true, label: fileLabel, text: content };
}

function missing(needs: readonly SettingName[], found: readonly Found[]): string[] {
  return found
    .filter(({ name, value }) => needs.includes(name) && value === null)
    .map(({ name, label }) => `${label} is not set: ${settingOf(name).meaning}; export it, or run farebox demo`);
}

/**
 * Checks rules over several settings, and whether the time zone exists. A setting with a problem of its own is undefined here.
 */
function contradictions(
  values: SettingValues,
  labelOf: (name: SettingName) => string,
  isTimeZone: (name: string) => boolean,
): string[] {
  const problems: string[] = [];
  const gateway = values.gateway_url;
  if (gateway?.origin.startsWith("http:") && values.gateway_insecure === false && !isLoopback(hostOf(gateway.origin))) {
    problems.push(
      `${labelOf("gateway_url")} must begin with https://: plain http would send the gateway key in the clear` +
        ` (${variableOf("gateway_insecure")}=1 permits it)`,
    );
  }
  if (values.auth === "open" && values.host !== undefined && !isLoopback(values.host)) {
    problems.push(
      `${labelOf("auth")} may be open only when listening on loopback: ` +
        `set ${variableOf("host")} to 127.0.0.1, or ${variableOf("auth")} to keys`,
    );
  }
  if (values.alert_secret != null && values.alert_webhook === null) {
    problems.push(
      `${labelOf("alert_secret")} signs nothing without ${variableOf("alert_webhook")}: set that too, or remove it`,
    );
  }
  if (values.body_memory < values.body_limit) {
    problems.push(`${labelOf("body_memory")} must not be smaller than ${variableOf("body_limit")}`);
  }
  if (values.time_zone !== undefined && !isTimeZone(values.time_zone)) {
    problems.push(`${labelOf("time_zone")} must be an IANA time zone such as UTC or Europe/Berlin`);
  }
  return problems;
}
