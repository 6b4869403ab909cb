import type { Verification } from "../ports/ledger.ts";
import { holdAgeMsMax } from "../reporting/doctor.ts";
import { keyNames } from "../reporting/names.ts";
import { oldHoldsJson, verificationJson } from "../reporting/verification.ts";
import type { RepairedRow } from "../server/database.ts";
import { command, json } from "./command.ts";
import { note, printLine, type Io } from "./io.ts";
import { progress } from "./progress.ts";
import { printRows } from "./table.ts";
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
    run: (tools, options) =>
      options.repair ? repair(tools, options.json) : tools.withLedger("read", (open) => verify(open, options.json)),
    json: ({ verification, oldHolds, repairs }) => ({
      ...verificationJson(verification),
      ...(oldHolds && { old_holds: oldHolds }),
      ...(repairs && { repairs }),
    }),
    print: (io, { verification, oldHolds = [] }) => {
      printVerification(io, verification);
      printOldHolds(io, oldHolds);
    },
    code: ({ verification: { differences } }) => (differences.length === 0 ? 0 : 1),
  }),
];

interface Verified {
  readonly verification: Verification;
  readonly oldHolds?: ReturnType<typeof oldHoldsJson>;
  readonly repairs?: readonly RepairedRow[];
}

async function verify({ io, ledger, keys, clock }: LedgerTools, isJson: boolean): Promise<Verified> {
  const bar = progress(io, "checked", !isJson);
  const verification = await ledger.verify(bar.show);
  bar.end();
  const holds = await ledger.oldHolds(clock.now() - holdAgeMsMax);
  return { verification, oldHolds: oldHoldsJson(holds, await keyNames(keys)) };
}

/** Repairs the ledger and prints each change once it is durable, so that an interrupted repair shows what it changed. */
async function repair({ io, settings, clock }: Tools, isJson: boolean) {
  const bar = progress(io, "checked", !isJson);
  const repairs: RepairedRow[] = [];
  const onRepaired = (row: RepairedRow) => {
    repairs.push(row);
    if (isJson) return;
    bar.end();
    printLine(io, `repaired ${row.kind} ${row.id}: ${row.from} -> ${row.to}`);
  };
  const { Maintenance } = await import("../server/database.ts");
  const result = await new Maintenance(clock).repair(settings, { onRepaired, onProgress: bar.show });
  bar.end();
  if (!result.ok) return result;
  return { verification: result.verification, repairs } satisfies Verified;
}

function printVerification(io: Io, { charges, differences, unlisted = 0 }: Verification): void {
  if (differences.length === 0) {
    printLine(io, `${counted(charges, "charge")} checked, no difference`);
    return;
  }
  printRows(io, differences, {
    kind: ({ kind }) => kind,
    id: ({ id }) => id,
    expected: ({ expected }) => expected,
    found: ({ found }) => found,
  });
  printLine(io, `${counted(charges, "charge")} checked, ${counted(differences.length + unlisted, "difference")}`);
}

function printOldHolds(io: Io, holds: ReturnType<typeof oldHoldsJson>): void {
  for (const { request_id, time, hold_usd, owner } of holds) {
    const why = owner === "running" ? "its serve still runs" : "its serve is gone; the next one posts it";
    note(io, `note: ${request_id} is pending since ${time} and holds USD ${hold_usd ?? "nothing"}: ${why}`);
  }
}

function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}
