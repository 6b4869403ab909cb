import { Command, CommanderError, Help } from "commander";
import type { CliCommand } from "./command.ts";
import type { Surroundings } from "./tools.ts";

interface Topic {
  /** Usage as the program's help shows it. */
  readonly term: string;
  readonly summary: string;
  /** Imports the commands of the topic. */
  readonly load: () => Promise<{ readonly commands: readonly CliCommand[] }>;
}

/** Topics in the order of the help. Each file is loaded only when its topic is used. */
const topics: readonly Topic[] = [
  { term: "serve [options]", summary: "run the proxy", load: () => import("./serve.ts") },
  {
    term: "demo [options]",
    summary: "show the proxy at work in front of a fake gateway; needs no settings and costs nothing",
    load: () => import("./demo.ts"),
  },
  {
    term: "run [options] <command...>",
    summary:
      "run a command with OPENAI_BASE_URL and OPENAI_API_KEY set to a session of its own; at its end, print its cost to stderr",
    load: () => import("./run.ts"),
  },
  {
    term: "sandbox [options]",
    summary: "run a fake gateway that speaks the whole interface and costs nothing",
    load: () => import("./sandbox.ts"),
  },
  { term: "keys", summary: "create, change, rotate and revoke internal keys", load: () => import("./keys.ts") },
  { term: "teams", summary: "limits and models that the keys of a team share", load: () => import("./teams.ts") },
  { term: "admins", summary: "create, list and revoke tokens of the admin API", load: () => import("./admins.ts") },
  { term: "budgets", summary: "limit what may be spent", load: () => import("./budgets.ts") },
  {
    term: "apply [options] <file>",
    summary: "change keys, teams, budgets and limits to those of a YAML file (- is stdin)",
    load: () => import("./apply.ts"),
  },
  { term: "report [options]", summary: "add up what was spent", load: () => import("./report.ts") },
  { term: "charges [options]", summary: "list single charges, newest first", load: () => import("./charges.ts") },
  {
    term: "watch [options]",
    summary: "watch requests as they come, with spending and budgets; where it is not a terminal, a line for each",
    load: () => import("./watch.ts"),
  },
  {
    term: "export [options]",
    summary: "write the charges as CSV, as JSON lines or as FOCUS rows by day, the oldest first",
    load: () => import("./export.ts"),
  },
  { term: "prices", summary: "check the price files, and show what is in them", load: () => import("./prices.ts") },
  {
    term: "estimate [options]",
    summary: "price a chat request before it is sent; says what is exact, what is estimated and what is a bound",
    load: () => import("./estimate.ts"),
  },
  {
    term: "balance [options]",
    summary: "show the balance of the gateway's account and how long it lasts",
    load: () => import("./balance.ts"),
  },
  {
    term: "reconcile [options]",
    summary: "compare the ledger with the movement of the gateway's account; exit 1 when they differ beyond doubt",
    load: () => import("./reconcile.ts"),
  },
  {
    term: "verify [options]",
    summary: "recompute every sum and amount of the ledger from its charges; exit 1 when one differs",
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
    summary: "check everything that serve needs and say what to fix; changes nothing; exit 1 when a check fails",
    load: () => import("./doctor.ts"),
  },
];

const nameOf = ({ term }: Topic) => term.replace(/ .*/, "");

/** Runs one command line, given without the program's name, and returns its exit code. Never throws for wrong input. */
export async function runCli(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  let exitCode = 0;
  try {
    const wanted = argv.find((word) => topics.some((topic) => nameOf(topic) === word));
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
}

/**
 * Builds the program. Only the topics for which `isLoaded` returns true get their commands; the others get only their names.
 */
export async function buildProgram(
  surroundings: Surroundings,
  isLoaded: (name: string) => boolean,
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
    const name = nameOf(topic);
    const command = program.command(name).description(topic.summary);
    if (!isLoaded(name)) {
      terms.set(command, topic.term);
      continue;
    }
    command.enablePositionalOptions();
    const { addCommand } = await import("./command.ts");
    for (const each of (await topic.load()).commands) addCommand(program, each, surroundings, onExit);
  }
  return program;
}
