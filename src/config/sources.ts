import { createRequire } from "node:module";
import type * as Yaml from "yaml";
import {
  configVariable,
  flagOf,
  settingNames,
  settingOf,
  variableOf,
  variablePrefix,
  type SettingName,
} from "./table.ts";
import { nearest } from "../core/fault.ts";

export type Environment = Readonly<Record<string, string | undefined>>;
export type Flags = Readonly<Partial<Record<SettingName, string>>>;
export type ReadFile = (
  path: string,
) => { readonly ok: true; readonly text: string } | { readonly ok: false; readonly code: string };

/** Origin of a setting's value. */
export type Origin = "flag" | "environment" | "file" | "default";

/**
 * Place in which settings are written. `name` is a setting's name in the settings table, with or without `_file` at its
 * end.
 */
export interface Source {
  readonly origin: Exclude<Origin, "default">;
  /** Returns the text of a setting; undefined if it is missing or empty. */
  get(name: string): string | undefined;
  /** Returns the setting's name in this source: "FAREBOX_PORT", "--port", "port in farebox.yaml". */
  label(name: string): string;
}

/**
 * Names of settings in the environment and the settings file: every setting, and its `_file` form if the setting has
 * one.
 */
const writableNames = settingNames.flatMap((name) => (settingOf(name).kind.fileForm ? [name, `${name}_file`] : [name]));

export function flagSource(flags: Flags): Source {
  return {
    origin: "flag",
    get: (name) => flags[name as SettingName] || undefined,
    label: flagOf,
  };
}

export function environmentSource(env: Environment): Source {
  return {
    origin: "environment",
    get: (name) => {
      const variable = variableOf(name);
      return isInjected(variable, env[variable]) ? undefined : env[variable] || undefined;
    },
    label: variableOf,
  };
}

/** Variable with a key for `farebox run`. It is not a setting of the proxy. */
export const keyVariable = "FAREBOX_KEY";

/** Returns one line for each FAREBOX_ variable that is not a setting. Never shows values. */
export function unknownVariables(env: Environment): string[] {
  const known = [...writableNames.map(variableOf), configVariable, keyVariable];
  return Object.keys(env)
    .filter((name) => name.startsWith(variablePrefix) && !known.includes(name) && !isInjected(name, env[name]))
    .sort()
    .map((name) => unknownName(name, known));
}

/** Returns true for variables that Kubernetes adds to every pod in the namespace of a service named farebox. */
function isInjected(variable: string, value: string | undefined): boolean {
  if (variable.startsWith("FAREBOX_SERVICE_") || variable.startsWith("FAREBOX_PORT_")) return true;
  return variable === "FAREBOX_PORT" && (value ?? "").startsWith("tcp://");
}

function unknownName(name: string, known: readonly string[], where = ""): string {
  const [meant] = nearest(name, known);
  return `${name}${where} is not a setting${meant === undefined ? "" : `; did you mean ${meant}?`}`;
}

interface FileSource {
  readonly source: Source;
  readonly problems: readonly string[];
  /** Path of the settings file; null if none was read. */
  readonly path: string | null;
}

const defaultPath = "farebox.yaml";

/** Returns the path of the settings file: the one that FAREBOX_CONFIG names, otherwise farebox.yaml. */
export function settingsPath(env: Environment): string {
  return env[configVariable] || defaultPath;
}

/** Reads the settings file. A missing file is a problem only if FAREBOX_CONFIG names it. */
export function fileSource(env: Environment, readFile: ReadFile): FileSource {
  const stated = env[configVariable] || undefined;
  const path = settingsPath(env);
  const read = readFile(path);
  if (read.ok) return parseSettingsFile(path, read.text);
  if (stated === undefined && read.code === "ENOENT") return { source: emptySource, problems: [], path: null };
  const why = read.code === "ENOENT" ? "does not exist" : `cannot be read (${read.code})`;
  const problem = stated === undefined ? `${defaultPath} ${why}` : `${configVariable} names a file that ${why}`;
  return { source: emptySource, problems: [problem], path: null };
}

const require = createRequire(import.meta.url);
/** Loads the parser only when it is needed, because many users have no settings file. */
const yaml = () => require("yaml") as typeof Yaml;

const emptySource: Source = { origin: "file", get: () => undefined, label: (name) => name };

function parseSettingsFile(path: string, text: string): FileSource {
  const lines = new (yaml().LineCounter)();
  // YAML's failsafe schema keeps every scalar as text: 5.00 does not become a number.
  const document = yaml().parseDocument(text, { schema: "failsafe", prettyErrors: false, lineCounter: lines });
  const broken = (problems: string[]): FileSource => ({ source: emptySource, problems, path });
  if (document.errors.length > 0) {
    return broken(
      document.errors.map(
        (error) => `${path} line ${lines.linePos(error.pos[0]).line} is not valid YAML (${error.code})`,
      ),
    );
  }
  if (document.contents === null) return { source: emptySource, problems: [], path };
  if (!yaml().isMap(document.contents))
    return broken([`${path} must have one setting on each line, written as \`name: value\``]);

  const values = new Map<string, string>();
  const problems: string[] = [];
  for (const { key, value } of document.contents.items) {
    const name = yaml().isScalar(key) ? String(key.value) : "?";
    const known = writableNames.find((candidate) => candidate === name);
    const written = writtenText(value);
    if (known === undefined) problems.push(unknownName(name, writableNames, ` in ${path}`));
    else if (written === undefined) problems.push(`${name} in ${path} must be a single value or a list of values`);
    else values.set(name, written);
  }
  const source: Source = {
    origin: "file",
    get: (name) => values.get(name) || undefined,
    label: (name) => `${name} in ${path}`,
  };
  return { source, problems, path };
}

/**
 * Returns the text of a scalar. Joins the items of a list with commas, as in the other sources. Returns undefined for
 * other values.
 */
function writtenText(node: unknown): string | undefined {
  if (node === null) return "";
  if (yaml().isScalar(node)) return node.value === null || node.value === undefined ? "" : String(node.value);
  if (!yaml().isSeq(node)) return undefined;
  const parts = node.items.map((item) => (yaml().isScalar(item) ? String(item.value) : undefined));
  return parts.includes(undefined) ? undefined : parts.join(",");
}
