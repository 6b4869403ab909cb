import type { Command } from "commander";
import { settingsFor, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";

/** `serve`: the proxy itself, until a signal ends it. */
export function registerServe(program: Command, context: CliContext): void {
  const command = program.command("serve").description("run the proxy");
  addSettingFlags(command);
  example(command, "FAREBOX_GATEWAY_API_KEY_FILE=gateway.key farebox serve --gateway-url https://gateway.example");
  command.action(
    context.run(async () => {
      const loaded = settingsFor(context, command, { uses: "all", needs: ["gateway_url", "gateway_api_key"] });
      if (!loaded.ok) return fail(context.io, loaded.problems);
      return await context.adapters.serve(loaded.settings, context.io);
    }),
  );
}
