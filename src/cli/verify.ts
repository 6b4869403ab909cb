import type { Command } from "commander";
import { verificationJson } from "../reporting/verification.ts";
import { storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { printJson, printLine } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";

/** `verify`: recomputes every stored sum and amount from the charges; 1 when one differs. */
export function registerVerify(program: Command, context: CliContext): void {
  const { io } = context;
  const command = program
    .command("verify")
    .description("recompute every sum and amount of the ledger from its charges; exit 1 when one differs")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox verify");
  command.action(
    context.run((options: { json?: true }) =>
      withStore(context, command, "read", async (store) => {
        const result = verificationJson(await store.ledger.verify());
        if (options.json) printJson(io, result);
        else if (result.ok) printLine(io, `${counted(result.charges, "charge")} checked, no difference`);
        else {
          const titles = ["kind", "id", "expected", "found"];
          printTable(
            io,
            titles.map((title) => ({ title })),
            result.differences.map(({ kind, id, expected, found }) => [kind, id, expected, found]),
          );
          printLine(io, `${counted(result.charges, "charge")} checked, ${counted(result.differences.length, "difference")}`);
        }
        return result.ok ? 0 : 1;
      }),
    ),
  );
}

function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}
