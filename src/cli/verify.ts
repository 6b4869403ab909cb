import type { RepairedRow, Verification } from "../ports/ledger.ts";
import { holdAgeMsMax } from "../reporting/doctor.ts";
import { keyNames } from "../reporting/names.ts";
import { oldHoldsJson, verificationJson } from "../reporting/verification.ts";
import type { OldHoldJson, VerifyJson } from "../reporting/shapes/commands.ts";
import { counted } from "./amounts.ts";
import { command, json } from "./command.ts";
import { note, printLine, type Io } from "./io.ts";
import { progress } from "./progress.ts";
import { fieldColumns, printRows } from "./table.ts";
import { ledgerSettings, type LedgerTools, type Tools } from "./tools.ts";

export const commands = [
  command("verify", {
    options: {
      repair: {
        help: "rebuild sums that differ from the charges, also while serve runs; charges are never changed",
      },
      json,
    },
    settings: ledgerSettings,
    examples: ["farebox verify", "farebox verify --repair"],
    run: async (tools, { repair: isRepair, json: isJson }) =>
      isRepair ? await repair(tools, isJson) : await tools.withLedger("read", (open) => verify(open, isJson)),
    json: ({ verification, oldHolds, repairs }): VerifyJson => ({
      ...verificationJson(verification),
      ...(oldHolds && { old_holds: oldHolds }),
      ...(repairs && { repairs }),
    }),
    print: (io, { verification, oldHolds }) => {
      printVerification(io, verification);
      printOldHolds(io, oldHolds ?? []);
    },
    code: ({ verification: { differences } }) => (differences.length === 0 ? 0 : 1),
  }),
];

async function verify({ io, ledger, keys, clock }: LedgerTools, isJson: boolean) {
  using bar = progress(io, "checked", !isJson);
  const verification = await ledger.verify(bar.show);
  const holds = await ledger.oldHolds(clock.now() - holdAgeMsMax);
  return { verification, oldHolds: oldHoldsJson(holds, await keyNames(keys)), repairs: null };
}

/**
 * Repairs the ledger and prints each change once it is durable, so that an interrupted repair shows what it changed.
 */
async function repair({ io, settings, clock }: Tools, isJson: boolean) {
  using bar = progress(io, "checked", !isJson);
  const repairs: RepairedRow[] = [];
  const onRepaired = (row: RepairedRow) => {
    repairs.push(row);
    if (isJson) return;
    bar.hide();
    printLine(io, `repaired ${row.kind} ${row.id}: ${row.from} -> ${row.to}`);
  };
  const { Maintenance } = await import("./services/database.ts");
  const result = await new Maintenance(clock).repair(settings, { onRepaired, onProgress: bar.show });
  return result.ok ? { verification: result.verification, oldHolds: null, repairs } : result;
}

function printVerification(io: Io, { charges, differences, unlisted = 0 }: Verification): void {
  if (differences.length === 0) {
    printLine(io, `${counted(charges, "charge")} checked, no difference`);
    return;
  }
  printRows(io, differences, fieldColumns("kind", "id", "expected", "found"));
  printLine(io, `${counted(charges, "charge")} checked, ${counted(differences.length + unlisted, "difference")}`);
}

function printOldHolds(io: Io, holds: readonly OldHoldJson[]): void {
  for (const { request_id, time, hold_usd, owner } of holds) {
    const why =
      owner === "running" ? "its proxy is still running" : "its proxy has ended; the next farebox serve posts the hold";
    note(
      io,
      `note: ${request_id} has been pending since ${time} and holds ${hold_usd === null ? "nothing" : `USD ${hold_usd}`}: ${why}`,
    );
  }
}
