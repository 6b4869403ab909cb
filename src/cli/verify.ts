import type { Command } from "commander";
import type { Verification } from "../ports/ledger.ts";
import { holdAgeMsMax } from "../reporting/doctor.ts";
import { keyNames } from "../reporting/names.ts";
import { oldHoldsJson, verificationJson } from "../reporting/verification.ts";
import type { MendedRow } from "./adapters.ts";
import { settingsFor, storeSettings, withStore, type CliContext, type OpenStore } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine, type ExitCode, type Io } from "./io.ts";
import { progress } from "./progress.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";

interface VerifyOptions {
  readonly repair?: true;
  readonly json?: true;
}

/** `verify`: recomputes every stored sum and amount from the charges; 1 when one differs. */
export function registerVerify(program: Command, context: CliContext): void {
  const command = program
    .command("verify")
    .description("recompute every sum and amount of the ledger from its charges; exit 1 when one differs")
    .option(
      "--repair",
      "rebuild sums that differ from the charges, next to a running serve too; charges are never changed",
    )
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox verify", "farebox verify --repair");
  command.action(
    context.run((options: VerifyOptions) =>
      options.repair === true ? repair(context, command, options) : verify(context, command, options),
    ),
  );
}

async function verify(context: CliContext, command: Command, options: VerifyOptions): Promise<ExitCode> {
  const { io } = context;
  return await withStore(context, command, "read", async (store) => {
    const bar = progress(io, "checked", !options.json);
    const verification = await store.ledger.verify(bar.show);
    bar.end();
    const oldHolds = await oldHoldsOf(store, context);
    if (options.json) printJson(io, { ...verificationJson(verification), old_holds: oldHolds });
    else {
      printVerification(io, verification);
      printOldHolds(io, oldHolds);
    }
    return exitCodeOf(verification);
  });
}

/** Each change is printed once it is durable, so that what was changed is known even where the rest was broken off. */
async function repair(context: CliContext, command: Command, options: VerifyOptions): Promise<ExitCode> {
  const { io, adapters } = context;
  const loaded = settingsFor(context, command, { uses: storeSettings });
  if (!loaded.ok) return fail(io, loaded.problems);
  const bar = progress(io, "checked", !options.json);
  const repairs: MendedRow[] = [];
  const onMended = (mended: MendedRow) => {
    if (options.json) {
      repairs.push(mended);
      return;
    }
    bar.end();
    const { kind, id, from, to } = mended;
    printLine(io, `repaired ${kind} ${id}: ${from} -> ${to}`);
  };
  const result = await adapters.upkeep.repair(loaded.settings, { onMended, onProgress: bar.show });
  bar.end();
  if (!result.ok) return fail(io, result.problem, result.code);
  if (options.json) printJson(io, { ...verificationJson(result.verification), repairs });
  else printVerification(io, result.verification);
  return exitCodeOf(result.verification);
}

function exitCodeOf({ differences }: Verification): ExitCode {
  return differences.length === 0 ? 0 : 1;
}

function printVerification(io: Io, { charges, differences, unlisted = 0 }: Verification): void {
  if (differences.length === 0) {
    printLine(io, `${counted(charges, "charge")} checked, no difference`);
    return;
  }
  printTable(
    io,
    ["kind", "id", "expected", "found"].map((title) => ({ title })),
    differences.map(({ kind, id, expected, found }) => [kind, id, expected, found]),
  );
  printLine(io, `${counted(charges, "charge")} checked, ${counted(differences.length + unlisted, "difference")}`);
}

async function oldHoldsOf(store: OpenStore, { adapters }: CliContext) {
  const holds = await store.ledger.oldHolds(adapters.clock.now() - holdAgeMsMax);
  return oldHoldsJson(holds, await keyNames(store.keys));
}

function printOldHolds(io: Io, holds: Awaited<ReturnType<typeof oldHoldsOf>>): void {
  for (const { request_id, time, hold_usd, owner } of holds) {
    const why = owner === "running" ? "its serve still runs" : "its serve is gone; the next one posts it";
    note(io, `note: ${request_id} is pending since ${time} and holds USD ${hold_usd ?? "nothing"}: ${why}`);
  }
}

function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}
