import { InvalidArgumentError } from "commander";
import { newSessionSchema } from "../admin/run-sessions.ts";
import { parseInput } from "../admin/result.ts";
import { keyVariable } from "../config/sources.ts";
import { command, refusal, type Given } from "./command.ts";

const options = {
  key: {
    value: "<name>",
    help: `whose session it is; without it, the key in ${keyVariable}, or the only key of the ledger`,
  },
  budget: { value: "<usd>", help: "the most that the session may spend; what does not fit is refused with 402" },
  tag: {
    value: "<name=value>",
    help: "a tag that all its requests carry; may be given several times",
    parse: tagArgument,
    default: {},
  },
} as const;

function newSession({ budget, tag }: Given<typeof options>) {
  return parseInput(newSessionSchema, { budget_usd: budget ?? null, tags: tag });
}

export const commands = [
  command("run <command...>", {
    options,
    passThrough: true,
    settings: "all",
    help: `
It goes through the farebox that listens at the settings' host and port, and starts one for itself where there is none.
The exit code is the command's: 128 + n where signal n ended it, 127 where there is no such command.`,
    examples: [
      "farebox run -- python agent.py",
      "farebox run --key alice --budget 2.00 --tag feature=search -- codex exec 'fix the tests'",
      "farebox report --by tag:session",
    ],
    check: (given) => {
      const session = newSession(given);
      return session.ok
        ? null
        : refusal(session.message.replace(/^budget_usd /, "--budget ").replace(/^tags /, "--tag "));
    },
    run: async ({ runInSession, env, settings, io }, given, words) => {
      const session = newSession(given);
      if (!session.ok) return session;
      const secret = env[keyVariable] || null;
      return await runInSession({ words, key: given.key ?? null, secret, session: session.value }, settings, io);
    },
  }),
];

/** Adds a tag to the previous ones. */
function tagArgument(text: string, before: Readonly<Record<string, string>>): Record<string, string> {
  const [, name, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new InvalidArgumentError("It must be a name and a value such as feature=search.");
  if (Object.hasOwn(before, name)) throw new InvalidArgumentError(`There is a tag ${name} already.`);
  return { ...before, [name]: value };
}
