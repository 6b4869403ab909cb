import { Command, CommanderError, Help } from "commander";
import type { Topic } from "./command.ts";
import type { RunCommandLine, Surroundings } from "./tools.ts";

/** Topics in the order of the help. Each file is loaded only when its topic is used. */
export const topics: readonly Topic[] = [
  {
    term: "init [options]",
    summary: "set up a proxy: settings file, ledger, first admin, key and budget; asks for missing values",
    load: () => import("./init.ts"),
  },
  { term: "serve [options]", summary: "run the proxy", load: () => import("./serve.ts") },
  {
    term: "demo [options]",
    summary: "run the proxy in front of a fake gateway and send it some requests; needs no settings and costs nothing",
    load: async () => (await import("./demo.ts")).demoTopic(runCli),
  },
  {
    term: "run [options] <command...>",
    summary:
      "run a command in its own session, with OPENAI_BASE_URL and OPENAI_API_KEY set, and print the session's cost to stderr",
    load: () => import("./run.ts"),
  },
  {
    term: "sandbox [options]",
    summary: "run a fake gateway that answers like a real one and costs nothing",
    load: () => import("./sandbox.ts"),
  },
  {
    term: "keys",
    summary: "create, change, rotate, suspend and revoke internal keys",
    load: () => import("./keys.ts"),
  },
  {
    term: "teams",
    summary: "create, change and remove teams, whose keys share limits and models",
    load: () => import("./teams.ts"),
  },
  { term: "admins", summary: "create, list and revoke tokens of the admin API", load: () => import("./admins.ts") },
  { term: "budgets", summary: "set, raise, list and remove spending limits", load: () => import("./budgets.ts") },
  { term: "raises", summary: "list, approve and deny raise requests", load: () => import("./raises.ts") },
  {
    term: "apply [options] <file>",
    summary: "make keys, teams and budgets match a YAML file (- is stdin)",
    load: () => import("./apply.ts"),
  },
  {
    term: "report [options]",
    summary: "sum up spending by model, key, day and other dimensions",
    load: () => import("./report.ts"),
  },
  { term: "charges [options]", summary: "list charges, newest first", load: () => import("./charges.ts") },
  {
    term: "refusals [options]",
    summary: "list requests that were refused and why, newest first",
    load: () => import("./refusals.ts"),
  },
  {
    term: "watch [options]",
    summary:
      "watch requests as they arrive, with spending and budgets; without a terminal, print a line for each request",
    load: () => import("./watch.ts"),
  },
  {
    term: "export [options]",
    summary: "write charges as CSV, JSON lines or daily FOCUS rows, oldest first",
    load: () => import("./export.ts"),
  },
  { term: "prices", summary: "check, show, compare and import prices", load: () => import("./prices.ts") },
  {
    term: "estimate [options]",
    summary: "price a chat request before it is sent; marks each item as exact, an estimate or a bound",
    load: () => import("./estimate.ts"),
  },
  {
    term: "balance [options]",
    summary: "show the balance of the gateway's account and how long it lasts",
    load: () => import("./balance.ts"),
  },
  {
    term: "reconcile [options]",
    summary: "compare the ledger with the gateway's account; exit code 1 if they differ by more than the uncertainty",
    load: () => import("./reconcile.ts"),
  },
  {
    term: "verify [options]",
    summary: "recompute every sum and amount of the ledger from its charges; exit code 1 if one differs",
    load: () => import("./verify.ts"),
  },
  { term: "audit [options]", summary: "list who changed what, newest first", load: () => import("./audit.ts") },
  { term: "db", summary: "migrate, back up, restore, prune and move the ledger", load: () => import("./db.ts") },
  {
    term: "proxies",
    summary: "list the proxies that share a ledger in PostgreSQL, and end a dead one",
    load: () => import("./proxies.ts"),
  },
  { term: "config", summary: "show the settings", load: () => import("./config.ts") },
  {
    term: "doctor [options]",
    summary: "check everything that serve needs and say what to fix; changes nothing; exit code 1 if a check fails",
    load: () => import("./doctor.ts"),
  },
  {
    term: "completion <shell> [words...]",
    summary: "print the script that completes commands, options and names in bash, zsh or fish",
    load: async () =>
      (await import("./completion.ts")).completionTopic(new Map(topics.map((topic) => [nameOfTopic(topic), topic]))),
  },
];

const nameOfTopic = ({ term }: Topic) => term.replace(/ .*/, "");

/** Runs one command line of Farebox. */
export const runCli: RunCommandLine = async (argv, surroundings) => {
  let exitCode = 0;
  try {
    const wanted = argv.find((word) => topics.some((topic) => nameOfTopic(topic) === word));
    const program = await buildProgram(
      surroundings,
      (name) => name === wanted,
      (code) => (exitCode = code),
    );
    await program.parseAsync([...argv], { from: "user" });
    return exitCode;
  } catch (error) {
    // Commander has already printed the error, or the help or version that the user asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    throw error;
  }
};

/**
 * Builds the program. Loads the commands of the topics for which `mustLoad` returns true. The other topics appear in
 * the help, but cannot run. `onExit` receives the exit code of the command that ran.
 */
export async function buildProgram(
  surroundings: Surroundings,
  mustLoad: (name: string) => boolean,
  onExit: (code: number) => void,
): Promise<Command> {
  const { io, version } = surroundings;
  const terms = new Map<Command, string>();
  const help = new Help();
  const program = new Command("farebox")
    .description("A local OpenAI-compatible proxy that knows what every request costs")
    .version(version)
    .exitOverride()
    // Options after the name of a subcommand belong to that subcommand.
    .enablePositionalOptions()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, "farebox: ")),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .configureHelp({ subcommandTerm: (command) => terms.get(command) ?? help.subcommandTerm(command) })
    .showHelpAfterError("(add --help for usage)");
  for (const topic of topics) {
    const name = nameOfTopic(topic);
    const command = program.command(name).description(topic.summary);
    if (!mustLoad(name)) {
      terms.set(command, topic.term);
      continue;
    }
    command.enablePositionalOptions();
    const { addCommand } = await import("./command.ts");
    for (const each of (await topic.load()).commands) addCommand(program, each, surroundings, onExit);
  }
  return program;
}
