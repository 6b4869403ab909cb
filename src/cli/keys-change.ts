import type { Command } from "commander";
import { keyChangeFault, rotateKey, updateKey, type KeyUpdate } from "../admin/keys.ts";
import { keyJson, rotatedKeyJson } from "../reporting/keys.ts";
import { newLifetimeArgument, overlapArgument } from "./arguments.ts";
import { changedBy, storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine } from "./io.ts";
import { addLimitOptions, limitWish, type LimitOptions } from "./limit-options.ts";
import { addSettingFlags } from "./setting-flags.ts";

interface UpdateOptions extends LimitOptions {
  /** False where it was taken away. */
  readonly team?: string | false;
  readonly expires?: number | "never";
  readonly json?: true;
}

export function registerKeyUpdate(keys: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = addLimitOptions(
    keys.command("update <name-or-id>").description("change what is given; a running farebox heeds it within a second"),
  )
    .option("--team <team>", "move it to this team; what it spent before stays with the other")
    .option("--no-team", "take it out of its team")
    .option(
      "--expires <duration>",
      "after how long from now it stops working, such as 30d, or never",
      newLifetimeArgument,
    )
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(
    command,
    "farebox keys update alice --rpm 60 --tpm 200000",
    "farebox keys update alice --parallel none --models all",
  );
  command.action(
    context.run(async (nameOrId: string, { json, team, expires, ...options }: UpdateOptions) => {
      const wish: KeyUpdate = {
        ...limitWish(options),
        team: team === false ? null : team,
        lifetimeMs: expires === "never" ? null : expires,
      };
      const fault = keyChangeFault(wish);
      if (fault !== null) return fail(io, fault.message);
      return await withStore(context, command, "change", async (store) => {
        const updated = await updateKey(
          { keys: store.keys, clock: adapters.clock, by: changedBy(context) },
          nameOrId,
          wish,
        );
        if (!updated.ok) return fail(io, updated.message);
        if (json) printJson(io, keyJson(updated.key, adapters.clock.now()));
        else printLine(io, `updated ${updated.key.name}`);
        return 0;
      });
    }),
  );
}

export function registerKeyRotate(keys: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = keys
    .command("rotate <name-or-id>")
    .description("give a key a new secret and print it, this once; the present one works on for a while")
    .option("--overlap <duration>", "how long the present secret still works, or 0 (default: 24h)", overlapArgument)
    .option("--json", "print the key with its id and the end of the overlap as JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox keys rotate alice --overlap 24h");
  command.action(
    context.run((nameOrId: string, { overlap, json }: { overlap?: number; json?: true }) =>
      withStore(context, command, "change", async (store) => {
        const rotated = await rotateKey({ keys: store.keys, clock: adapters.clock, by: changedBy(context) }, nameOrId, {
          overlapMs: overlap,
        });
        if (!rotated.ok) return fail(io, rotated.message);
        const { key, text } = rotated;
        const rotatedJson = rotatedKeyJson(key, text);
        if (json) {
          printJson(io, rotatedJson);
          return 0;
        }
        const until = rotatedJson.previous_valid_until;
        printLine(io, text);
        note(
          io,
          until === null ? `The secret before it works no longer.` : `The secret before it works until ${until}.`,
        );
        return 0;
      }),
    ),
  );
}
