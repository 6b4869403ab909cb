import { existsSync } from "node:fs";
import { createAdmin, newAdminSchema, type CreatedAdmin } from "../admin/admin-changes.ts";
import { newBudgetFault, setBudget, type NewBudget } from "../admin/budget-changes.ts";
import { createKey, newKeySchema, type CreatedKey } from "../admin/key-changes.ts";
import { failure, inputFault, type Failure } from "../admin/result.ts";
import { shownDatabase } from "../config/database.ts";
import type { Settings } from "../config/settings.ts";
import { settingsPath, type Environment } from "../config/sources.ts";
import { variableOf, type SettingName } from "../config/table.ts";
import { localUrl } from "../core/addresses.ts";
import { namePattern, reservedAdminNames } from "../core/keys.ts";
import { newAdminJson, newKeyJson } from "../reporting/details.ts";
import { isHealthy } from "../reporting/doctor.ts";
import type { Check } from "../reporting/shapes/commands.ts";
import { isCheckout } from "../server/package.ts";
import { command, type Given } from "./command.ts";
import { doctorSummary, printCheck } from "./doctor.ts";
import { fail, printHeading, printJson, printLine, commandFailure, type Io, type CommandFailure } from "./io.ts";
import { createSetup, settingsText } from "./services/init.ts";
import { ledgerSettings, toolsFor, type LedgerTools, type Tools } from "./tools.ts";

/** Settings that `init` takes as flags or from the environment, and writes to the settings file. */
const initSettings = [
  "gateway_url",
  "gateway_insecure",
  "gateway_api_key",
  "host",
  "port",
  ...ledgerSettings,
  "preset",
] as const satisfies readonly SettingName[];

const options = {
  key: { value: "<name>", help: "name of the first key (default: your user name)" },
  budget: { value: "<usd>", help: "daily budget of this key in USD (default: 5)" },
  admin: { value: "<name>", help: "name of the first admin (default: your user name)" },
  json: { help: "print the key and the token as JSON on stdout, and the checks on stderr" },
} as const;

const cancelled = commandFailure("cancelled; nothing was written", 1);

export const commands = [
  command("init", {
    options,
    settings: initSettings,
    // The settings file does not exist yet, even if FAREBOX_CONFIG names it.
    settingsUnread: true,
    help: `
On a terminal, init asks for missing values and hides the gateway key. Scripts set ${variableOf("gateway_api_key")}, or
${variableOf("gateway_api_key")}_FILE. If the gateway or its key does not work, or if the settings file exists, nothing is written.`,
    examples: [
      "farebox init",
      "FAREBOX_GATEWAY_API_KEY_FILE=gateway.key farebox init --gateway-url https://gateway.example --key alice --budget 5",
    ],
    run: async (tools, given) => {
      const { io } = tools;
      const file = settingsPath(tools.env);
      if (existsSync(file))
        return commandFailure(`${file} already exists; farebox doctor checks it. To start again, move it away first`);
      const start = reload(tools, {});
      if (!start.ok) return start;
      const unusable = await ledgerFault(start.value);
      if (unusable !== null) return unusable;
      const checked = await toolsWithGateway(tools);
      if (!checked.ok) return checked;
      const first = await firstFor(checked.value, given);
      if (!first.ok) return first;
      const { env, settings } = checked.value;
      const text = settingsText(initSettings, tools.flags, env);
      const made = await createSetup(
        checked.value,
        file,
        text,
        (open) => createFirst(open, first),
        (created) => {
          if (given.json) printJson(io, setupJson(created, file, settings));
          else printSetup(io, created, file, settings);
        },
      );
      if (!made.ok) return made;
      const { examine } = await import("./services/doctor.ts");
      const checks: Check[] = [];
      // With --json, only the JSON goes to stdout.
      const shown = given.json ? { ...io, stdout: io.stderr } : io;
      printHeading(shown, "Checks");
      await examine(tools, tools.clock, (check) => {
        checks.push(check);
        printCheck(shown, check);
      });
      printLine(shown, doctorSummary(checks));
      return isHealthy(checks) ? 0 : 1;
    },
  }),
];

/**
 * Returns tools with the settings from flags, from the environment and from the user's answers in `entered`. Treats the
 * settings file as empty.
 */
function reload(tools: Tools, entered: Environment) {
  const env = { ...tools.env, ...entered };
  const file = settingsPath(env);
  const readFile: Tools["readFile"] = (path) => (path === file ? { ok: true, text: "" } : tools.readFile(path));
  return toolsFor({ ...tools, env, readFile }, tools.flags, { uses: initSettings });
}

/** Returns the reason why the ledger cannot be used; null if it can, or if it does not exist yet. */
async function ledgerFault({ openLedger }: Tools): Promise<CommandFailure | null> {
  const opening = await openLedger("read");
  if (!opening.ok) return opening.isMissing ? null : opening;
  await opening.store[Symbol.asyncDispose]();
  return null;
}

/** Required settings of the gateway, each with a question for a terminal and advice for scripts. */
const gatewayNeeds = [
  { name: "gateway_url", question: "Address of the gateway", hidden: false, advice: "give --gateway-url" },
  {
    name: "gateway_api_key",
    question: "Key of the gateway (not shown)",
    hidden: true,
    advice: `export it, or name its file in ${variableOf("gateway_api_key")}_FILE`,
  },
] as const;

/**
 * Asks for the gateway's address and key if they are not given, until both work. Returns tools with both settings. Fails
 * if both are given and do not work, if one is missing and there is no terminal, or if the user cancels.
 */
async function toolsWithGateway(tools: Tools): Promise<ReturnType<typeof reload>> {
  const { askText, env, flags, io, clock } = tools;
  const { examineGateway } = await import("./services/doctor.ts");
  const asked = gatewayNeeds.filter(
    ({ name }) => !(flags[name] || env[variableOf(name)] || env[variableOf(`${name}_file`)]),
  );
  const entered: Record<string, string> = {};
  for (;;) {
    const missing: string[] = [];
    for (const { name, question, hidden, advice } of asked) {
      const variable = variableOf(name);
      const known = hidden ? "" : (entered[variable] ?? "");
      const answer = await askNonEmpty(askText, question, known, hidden);
      if (answer === false) return cancelled;
      if (answer === null)
        missing.push(`${variable} is not set; ${advice}, or run init on a terminal, which asks for it`);
      else entered[variable] = answer;
    }
    if (missing.length > 0) return commandFailure(missing);
    const loaded = reload(tools, entered);
    const checks = loaded.ok ? await examineGateway(loaded.value.settings, clock) : [];
    const failed = checks.filter(({ status }) => status === "failed");
    if (loaded.ok && failed.length === 0) return loaded;
    const problems = loaded.ok
      ? failed.map(({ name, message, advice }) => `${name}: ${message}; ${advice}`)
      : loaded.message;
    if (asked.length === 0) return loaded.ok ? commandFailure([...problems, "nothing was written"], 1) : loaded;
    fail(io, problems);
  }
}

/**
 * Asks until the answer is not empty. An empty answer means `known`, unless that is empty too. Returns false and null
 * as `askText` does.
 */
async function askNonEmpty(
  askText: Tools["askText"],
  question: string,
  known: string,
  hidden: boolean,
): Promise<string | false | null> {
  const answer = await askText(`${question}${known === "" ? "" : ` [${known}]`}: `, { hidden });
  if (answer !== "") return answer;
  return known || askNonEmpty(askText, question, known, hidden);
}

/** First key, its budget and the first admin. */
interface First {
  readonly ok: true;
  readonly key: string;
  readonly admin: string;
  readonly budget: NewBudget;
}

/** Asks for the key's name and budget if they are not given. By default, the admin has the system user's name. */
async function firstFor(tools: Tools, given: Given<typeof options>): Promise<First | CommandFailure> {
  const user = nameOf(tools.userName());
  const key = await textFor(
    tools,
    given.key,
    "Name of the first key",
    user,
    async (name) => inputFault(newKeySchema, { name }) ?? (await takenFault(tools, "keys", name)),
  );
  if (typeof key !== "string") return key;
  const budgetOf = (limit: string): NewBudget => ({ scope: `key:${key}`, limit, period: "1d" });
  const limit = await textFor(tools, given.budget, `Daily budget of ${key} in USD`, "5", async (text) =>
    newBudgetFault(budgetOf(text)),
  );
  if (typeof limit !== "string") return limit;
  const admin = given.admin ?? (reservedAdminNames.includes(user) ? `${user}-admin` : user);
  const fault =
    inputFault(newAdminSchema, { name: admin, role: "editor" }) ?? (await takenFault(tools, "admins", admin));
  return fault ?? { ok: true, key, admin, budget: budgetOf(limit) };
}

/**
 * Returns the given text if it is valid, or asks until the answer is valid. An empty answer means `fallback`, as does a
 * missing terminal.
 */
async function textFor(
  { askText, io }: Tools,
  given: string | undefined,
  question: string,
  fallback: string,
  faultOf: (text: string) => Promise<Failure | null>,
): Promise<string | CommandFailure> {
  for (;;) {
    const answer = given ?? (await askText(`${question} [${fallback}]: `));
    if (answer === false) return cancelled;
    const text = given ?? (answer || fallback);
    const fault = await faultOf(text);
    if (fault === null) return text;
    if (given !== undefined || answer === null) return fault;
    fail(io, fault.message);
  }
}

/** Returns a valid name that resembles the name of the system user; "first" if there is none. */
function nameOf(user: string): string {
  const name = user
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replace(/^[^a-z0-9]+/, "")
    .slice(0, 63);
  return namePattern.test(name) ? name : "first";
}

/** Returns the fault of a name that the ledger already has; null if the name is free or there is no ledger. */
async function takenFault({ openLedger }: Tools, kind: "keys" | "admins", name: string): Promise<Failure | null> {
  const opening = await openLedger("read");
  if (!opening.ok) return null;
  await using store = opening.store;
  if ((await store[kind].find(name)) === undefined) return null;
  const [noun, flag] = kind === "keys" ? ["a key", "--key"] : ["an admin", "--admin"];
  return failure("name_taken", `the ledger already has ${noun} named ${name}; choose another name with ${flag}`);
}

async function createFirst(
  open: LedgerTools,
  { key: name, admin: adminName, budget }: First,
): Promise<Created | CommandFailure> {
  const key = await createKey(open, { name });
  if (!key.ok) return key;
  const set = await setBudget(open, budget);
  if (!set.ok) return set;
  const admin = await createAdmin(open, { name: adminName, role: "editor" });
  return admin.ok ? { ok: true, key, admin, budget } : admin;
}

/** Key, budget and admin that were created, with the texts of key and token. */
interface Created {
  readonly ok: true;
  readonly key: CreatedKey;
  readonly admin: CreatedAdmin;
  readonly budget: NewBudget;
}

/** Returns the proxy's address for clients on this machine, with PORT if the system chooses the port. */
function ownAddress({ listen: { host, port } }: Settings): string {
  return localUrl(host, port === 0 ? "PORT" : port);
}

function setupJson({ key, admin, budget }: Created, file: string, settings: Settings) {
  return {
    file,
    ledger: shownDatabase(settings.database),
    base_url: `${ownAddress(settings)}/v1`,
    key: newKeyJson(key.key, key.text),
    admin: newAdminJson(admin.admin, admin.text),
    budget: { scope: budget.scope, limit_usd: budget.limit, period: budget.period },
  };
}

function printSetup(io: Io, { key, admin, budget }: Created, file: string, settings: Settings): void {
  const own = ownAddress(settings);
  const ledger = shownDatabase(settings.database);
  printLine(io, `The settings are in ${file}, which only you can read; the ledger is ${ledger}.`);
  printLine(io, `The key ${key.key.name} may spend ${budget.limit} USD in a day.`);
  printHeading(io, "1. Start the proxy");
  printLine(io, `  ${isCheckout() ? "npm run --silent farebox --" : "farebox"} serve`);
  printHeading(io, "2. In another terminal, point an SDK at it");
  printLine(io, `  export OPENAI_BASE_URL=${own}/v1`);
  printLine(io, `  export OPENAI_API_KEY=${key.text}`);
  printHeading(io, `3. Open the dashboard, and sign in with the token of the admin ${admin.admin.name}`);
  printLine(io, `  ${own}/dashboard`);
  printLine(io, `  ${admin.text}`);
  printLine(io, "");
  printLine(io, "The key and the token cannot be shown again: the ledger stores only their digests.");
}
