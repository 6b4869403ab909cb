import type { Command } from "commander";
import type { SettingName } from "../config/table.ts";
import { fail, type ExitCode } from "./io.ts";
import { ledgerSettings, storeProblem, toolsFor, type CliContext, type Intent, type LedgerTools } from "./tools.ts";

export { ledgerSettings as storeSettings, settingsFor, storeProblem } from "./tools.ts";
export type { CliContext, Intent, LedgerTools as OpenStore } from "./tools.ts";
import { operatingSystemUser } from "../core/audit.ts";
void storeProblem;
export function changedBy({ adapters }: CliContext): string {
  return operatingSystemUser(adapters.userName());
}

/** Reads the settings, opens the ledger, works with it and closes it. */
export async function withStore(
  context: CliContext,
  command: Command,
  intent: Intent,
  work: (store: LedgerTools) => Promise<ExitCode>,
  uses: readonly SettingName[] = ledgerSettings,
): Promise<ExitCode> {
  const tools = toolsFor(context, command, { uses });
  if (!tools.ok) return fail(context.io, tools.message);
  const result = await tools.value.withLedger(intent, work);
  return typeof result === "number" ? result : fail(context.io, result.message);
}
