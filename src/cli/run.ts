import { InvalidArgumentError, type Command } from "commander";
import { newSessionSchema } from "../admin/run-sessions.ts";
import { parseInput } from "../admin/result.ts";
import { keyVariable } from "../config/sources.ts";
import { settingsFor, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";

interface RunOptions {
  readonly key?: string;
  readonly budget?: string;
  readonly tag: Readonly<Record<string, string>>;
}

/** `run`: a command in a session of its own, and what it cost. */
export function registerRun(program: Command, context: CliContext): void {
  const { io, env, adapters } = context;
  const command = program
    .command("run <command...>")
    .description(
      "run a command with OPENAI_BASE_URL and OPENAI_API_KEY set to a session of its own; at its end, say on stderr what it cost",
    )
    .option("--key <name>", `whose session it is; without it, the key in ${keyVariable}, or the only key of the ledger`)
    .option("--budget <usd>", "the most that the session may spend; what does not fit is refused with 402")
    .option("--tag <name=value>", "a tag that all its requests carry; may be given several times", tagArgument, {})
    .passThroughOptions();
  addSettingFlags(command);
  command.addHelpText(
    "after",
    `
It goes through the farebox that listens at the settings' host and port, and starts one for itself where there is none.
The exit code is the command's: 128 + n where signal n ended it, 127 where there is no such command.`,
  );
  example(
    command,
    "farebox run -- python agent.py",
    "farebox run --key alice --budget 2.00 --tag feature=search -- codex exec 'fix the tests'",
    "farebox report --by tag:session",
  );
  command.action(
    context.run(async (words: readonly string[], { key, budget, tag }: RunOptions) => {
      const wish = parseInput(newSessionSchema, { budget_usd: budget ?? null, tags: tag });
      if (!wish.ok) return fail(io, wish.message.replace(/^budget_usd /, "--budget ").replace(/^tags /, "--tag "));
      const loaded = settingsFor(context, command, { uses: "all" });
      if (!loaded.ok) return fail(io, loaded.problems);
      const secret = env[keyVariable] || null;
      return await adapters.runInSession({ words, key: key ?? null, secret, wish: wish.value }, loaded.settings, io);
    }),
  );
}

/** For commander: one more tag. */
function tagArgument(text: string, before: Readonly<Record<string, string>>): Record<string, string> {
  const [, name, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new InvalidArgumentError("It must be a name and a value such as feature=search.");
  if (Object.hasOwn(before, name)) throw new InvalidArgumentError(`There is a tag ${name} already.`);
  return { ...before, [name]: value };
}
