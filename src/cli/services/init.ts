import { existsSync, rmSync } from "node:fs";
import { resolve } from "node:path";
import { ledgerFile } from "../../config/database.ts";
import { environmentSource, flagSource, type Environment, type Flags } from "../../config/sources.ts";
import type { SettingName } from "../../config/table.ts";
import { isPostgresUrl } from "../../core/postgres-url.ts";
import { commandFailure, type CommandFailure } from "../io.ts";
import { openNewFile } from "../out-file.ts";
import type { LedgerTools, Tools } from "../tools.ts";

/**
 * Returns the text of a settings file with the named settings from flags and the environment. Makes the paths of an
 * SQLite ledger and of files with secrets absolute.
 */
export function settingsText(names: readonly SettingName[], flags: Flags, env: Environment): string {
  const sources = [flagSource(flags), environmentSource(env)];
  const lines = names.flatMap((name) => {
    for (const source of sources) {
      const file = source.get(`${name}_file`);
      if (file !== undefined) return [lineOf(`${name}_file`, resolve(file))];
      const text = source.get(name);
      if (text !== undefined) return [lineOf(name, name === "database" && !isPostgresUrl(text) ? resolve(text) : text)];
    }
    return [];
  });
  return ["# Settings of farebox serve. farebox serve --help lists all of them.", ...lines, ""].join("\n");
}

/** Formats a setting as a line of YAML. A JSON string is also a YAML string. */
function lineOf(name: string, text: string): string {
  return `${name}: ${JSON.stringify(text)}`;
}

/**
 * Creates the settings file, which only its owner can read. Then runs `work` in the ledger, which is created if it does
 * not exist, and passes a successful result to `report`. If a step fails, removes the files that were created. Ignores
 * signals in the meantime: a signal after the creation of a key would end the process before the key is shown.
 */
export async function createSetup<R extends { readonly ok: true }>(
  { settings, withLedger }: Tools,
  file: string,
  text: string,
  work: (tools: LedgerTools) => Promise<R | CommandFailure>,
  report: (made: R) => void,
): Promise<R | CommandFailure> {
  const ledger = ledgerFile(settings.database);
  const isNewLedger = ledger !== null && !existsSync(ledger);
  const ignore = () => {};
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, ignore);
  try {
    const problem = await createFile(file, text);
    if (problem !== null) return problem;
    let isDone = false;
    try {
      const made = await withLedger("create", work);
      isDone = made.ok;
      if (made.ok) report(made);
      return made;
    } finally {
      if (!isDone) {
        rmSync(file, { force: true });
        if (isNewLedger) for (const suffix of ["", "-wal", "-shm"]) rmSync(ledger + suffix, { force: true });
      }
    }
  } finally {
    for (const signal of signals) process.off(signal, ignore);
  }
}

/** Creates a file that only its owner can read. Returns the reason for a failure; null on success. */
async function createFile(file: string, text: string): Promise<CommandFailure | null> {
  const opened = await openNewFile(file);
  if (!opened.ok) return opened;
  await using created = opened;
  const problem = await created.write(text);
  return problem === null ? null : commandFailure(`${file} cannot be written: ${problem}`);
}
