import type { Command } from "commander";
import { correctCharge, newCorrectionFault } from "../admin/corrections.ts";
import { chargeJson } from "../reporting/charges.ts";
import { keyNames } from "../reporting/names.ts";
import { changedBy, storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";

/** `charges adjust`: an audited correction beside a charge; 1 when the charge cannot be corrected so. */
export function registerAdjust(charges: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = charges
    .command("adjust <request-id> <amount>")
    .description("add a correction of AMOUNT USD to a charge, as a row of its own that says who, when and why")
    .requiredOption("--why <text>", "the reason, kept with the correction")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  command.addHelpText(
    "after",
    "\nAMOUNT is added to what the charge costs: 0.25 for more, -0.05 for less. The same correction given twice is made once.",
  );
  example(
    command,
    "farebox charges adjust 019a0e2c-7f5e-7cc1-a2d4-90b1c1d2e3f4 -0.05 --why 'billed twice by the gateway'",
  );
  command.action(
    context.run(async (id: string, amount: string, options: { why: string; json?: true }) => {
      const wanted = { id, amount, why: options.why, by: changedBy(context) };
      const fault = newCorrectionFault(wanted);
      if (fault !== null) return fail(io, fault.message);
      return await withStore(context, command, "change", async (store) => {
        const made = await correctCharge({ ledger: store.ledger, clock: adapters.clock }, wanted);
        if (!made.ok) return fail(io, made.message, made.kind === "refused" ? 1 : 2);
        const nameOf = await keyNames(store.keys);
        const correction = chargeJson(made.correction, nameOf);
        if (options.json)
          printJson(io, { repeated: made.repeated, charge: chargeJson(made.charge, nameOf), correction });
        else {
          const known = [correction.key, correction.model, correction.time].filter((part) => part !== null).join(", ");
          printLine(
            io,
            `${made.repeated ? "there is already a correction of" : "corrected"} ${id} (${known}) by USD ${correction.cost_usd}`,
          );
          note(
            io,
            `${made.repeated ? "made" : "recorded"} by ${correction.correction?.by} as ${correction.request_id}`,
          );
        }
        return 0;
      });
    }),
  );
}
