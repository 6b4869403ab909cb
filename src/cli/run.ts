import { newSessionSchema } from "../admin/run-sessions.ts";
import { parseInput } from "../admin/result.ts";
import { keyVariable } from "../config/sources.ts";
import { pairArgument } from "./arguments.ts";
import { command, type Given } from "./command.ts";
import { commandFailure } from "./io.ts";

const options = {
  key: {
    value: "<key>",
    help: `key of the session (default: the key in ${keyVariable}, or the only key in the ledger)`,
  },
  budget: { value: "<usd>", help: "budget of the session in USD; requests that do not fit are refused with 402" },
  tag: {
    value: "<name=value>",
    help: "tag of all requests of the session; may be repeated",
    parse: pairArgument("tag"),
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
Uses the farebox that listens at the configured host and port. If none listens there, run starts one for the session.
The exit code is the command's: 128 + n if signal n ended the command, 127 if the command does not exist.`,
    examples: [
      "farebox run -- python agent.py",
      "farebox run --key alice --budget 2.00 --tag feature=search -- codex exec 'fix the tests'",
      "farebox run -- claude -p 'fix the tests'",
      "farebox report --by tag:session",
    ],
    check: (given) => {
      const session = newSession(given);
      return session.ok
        ? null
        : commandFailure(session.message.replace(/^budget_usd /, "--budget ").replace(/^tags /, "--tag "));
    },
    run: async (tools, given, words) => {
      const session = newSession(given);
      if (!session.ok) return session;
      const secret = tools.env[keyVariable] || null;
      return await tools.runInSession({ words, key: given.key ?? null, secret, session: session.value }, tools);
    },
  }),
];
