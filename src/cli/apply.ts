import { existsSync } from "node:fs";
import { applyFileKind, type ApplyFile } from "../admin/apply-file.ts";
import { planOf, type Plan, type CurrentState, type PlannedChange } from "../admin/apply-plan.ts";
import { applyChanges, readCurrentState, type Applied } from "../admin/apply.ts";
import { ledgerFile } from "../config/database.ts";
import { formatFault } from "../core/fault.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { ReadYaml } from "../ports/yaml.ts";
import { counted } from "./amounts.ts";
import { calendarOf } from "../platform/clock.ts";
import { readYaml } from "../platform/yaml.ts";
import { command, json, type Given } from "./command.ts";
import { note, printLine, writeSafely, commandFailure, type Io, type CommandFailure } from "./io.ts";
import { openNewFile, outFileProblem } from "./out-file.ts";
import { readStoredUsers, storedUsers, type StoredUser } from "../wire/headers.ts";
import { userSettings, type LedgerTools, type Tools } from "./tools.ts";

const help = `
Prints the plan, then makes its changes in that order. A second run changes nothing. If the file has no section for teams,
keys or budgets, those stay unchanged. A setting that a key or team leaves out gets its default. New keys are printed to
stdout once, as NAME<TAB>KEY. The plan is printed to stderr, and with --dry-run to stdout.

FILE is YAML:
  teams:
    research: { limits: { rpm: 600, tpm: 2000000, parallel: 50 }, models: ["gpt-4o*"] }
  keys:
    alice: { team: research, expires: 2027-01-31, limits: { rpm: 60 } }
  budgets:
    - { scope: all, per: 1mo, limit: "500", warn: 80% }
    - { scope: each-key, per: 1d, limit: "5", mode: hard }`;

const options = {
  dryRun: { help: "print the plan and change nothing" },
  prune: { help: "also revoke keys and remove budgets and teams that are not in the file" },
  keysOut: { value: "<file>", help: "write new keys to a new file that only you can read, instead of stdout" },
  json,
} as const;

type ApplyOptions = Given<typeof options>;

export const commands = [
  command("apply <file>", {
    options,
    settings: userSettings,
    help,
    examples: ["farebox apply company.yaml --dry-run", "farebox apply company.yaml --prune --keys-out new-keys.tsv"],
    run: async (tools, given, name) => {
      const { io, settings, clock } = tools;
      const read = await readApplyFile(tools, name);
      if (typeof read === "string") return commandFailure(read);
      if (read.faults.length > 0) return commandFailure(read.faults.map(formatFault), 1);
      const problem = given.keysOut === undefined ? null : keysOutProblem(given.keysOut, ledgerFile(settings.database));
      if (problem !== null) return commandFailure(problem);

      // Check first, without writing: a faulty file, or one without changes, must not create a ledger.
      const found = await findCurrentState(tools);
      if (!found.ok) return found;
      const planned = planFor(clock.now(), read, given, found.current, found);
      if (!planned.ok) return planned;
      const { plan } = planned;
      if (given.dryRun || plan.changes.length === 0) {
        if (!given.json) printPlan(io, plan, given.dryRun ? printLine : note);
        return { plan, made: [], failed: null, keys: [] };
      }
      return await tools.withLedger("create", async (open) => {
        const replanned = planFor(clock.now(), read, given, await readCurrentState(open), open);
        return replanned.ok ? await applyPlan(open, replanned, given) : replanned;
      });
    },
    json: ({ plan: { changes, kept }, made, failed, keys }) => ({
      changes: changes.map(changeJson),
      kept: kept.map(changeJson),
      applied: made.length,
      failed: failed && { object: failed.change.object, message: failed.message },
      keys,
    }),
    print: (io, { made, failed, keys }, { keysOut }) => {
      if (keysOut !== undefined && keys.length > 0)
        note(io, `wrote ${counted(keys.length, "new key")} to ${keysOut}; they cannot be shown again`);
      if (made.length > 0 && failed === null) note(io, `made ${counted(made.length, "change")}`);
    },
    notes: ({ made, failed }) => (failed === null ? [] : [`farebox: ${failureText(failed, made)}`]),
    code: ({ failed }) => (failed === null ? 0 : 1),
  }),
];

interface PlanTools {
  readonly calendar: Calendar;
  readonly storedUser: StoredUser | null;
}

type CurrentStateResult = ({ readonly ok: true; readonly current: CurrentState } & PlanTools) | CommandFailure;

/** Reads the current state. A missing ledger counts as empty. */
async function findCurrentState({ openLedger, settings }: Tools): Promise<CurrentStateResult> {
  const opening = await openLedger("read");
  if (opening.ok) {
    await using store = opening.store;
    const storedUser = await readStoredUsers(settings.access.users, store.sessions);
    return { ok: true, current: await readCurrentState(store), calendar: calendarOf(store.timeZone), storedUser };
  }
  if (!opening.isMissing) return opening;
  // Without a ledger there is no secret for hashing, and no budget to compare with.
  const storedUser = storedUsers(settings.access.users, "");
  return {
    ok: true,
    current: { teams: [], keys: [], budgets: [] },
    calendar: calendarOf(settings.timeZone),
    storedUser,
  };
}

/** Returns the file's content with its faults, or a message if the file cannot be read. */
async function readApplyFile({ readFile, readStdin }: Tools, name: string): Promise<ReadYaml<ApplyFile> | string> {
  if (name === "-") return readYaml("stdin", (await readStdin()).toString(), applyFileKind);
  const read = readFile(name);
  if (read.ok) return readYaml(name, read.text, applyFileKind);
  if (read.code === "ENOENT") return `there is no file ${name}`;
  return read.code === "EISDIR" ? `${name} is a folder; name a file` : `${name} cannot be read (${read.code})`;
}

type FilePlanResult = { readonly ok: true; readonly plan: Plan; readonly at: number } | CommandFailure;

function planFor(
  now: number,
  read: ReadYaml<ApplyFile>,
  { prune }: ApplyOptions,
  current: CurrentState,
  { calendar, storedUser }: PlanTools,
): FilePlanResult {
  const planned = planOf({ file: read.value, current, prune, now, calendar, storedUser });
  if (planned.ok) return { ok: true, plan: planned.plan, at: now };
  return commandFailure(
    planned.faults.map(({ path, message }) => formatFault(read.faultAt(path, message))),
    1,
  );
}

/** Returns the reason why new keys cannot be written to this file; null if they can. */
function keysOutProblem(file: string, ledger: string | null): string | null {
  const problem = outFileProblem(file, ledger, "new keys", true);
  if (problem !== null) return problem;
  return existsSync(file) ? `${file} already exists; name a file that does not exist for the new keys` : null;
}

/** New key in the output of `apply --json`. `key` is its text; it is missing if the text went to a file. */
interface NewKey {
  readonly id: string;
  readonly name: string;
  readonly key?: string;
}

/** Plan, with the changes that were made. */
interface Outcome extends Applied {
  readonly plan: Plan;
  readonly keys: readonly NewKey[];
}

async function applyPlan(
  tools: LedgerTools,
  { plan, at }: { readonly plan: Plan; readonly at: number },
  given: ApplyOptions,
): Promise<Outcome | CommandFailure> {
  const { io } = tools;
  const createsKeys = plan.changes.some(({ call }) => call.action === "keys.create");
  if (!given.json) {
    io.continueWithoutStdout?.();
    printPlan(io, plan, note);
  }
  const opening = createsKeys && given.keysOut !== undefined ? await openNewFile(given.keysOut) : null;
  if (opening?.ok === false) return opening;
  await using file = opening;
  const keys: NewKey[] = [];
  const applied = await applyChanges(tools, plan.changes, {
    at,
    onKey: async ({ key, text }) => {
      const line = `${key.name}\t${text}\n`;
      const problem = file !== null ? await file.write(line) : given.json ? null : await writeSafely(io, line);
      if (problem === null) {
        keys.push({ id: key.id, name: key.name, ...(given.keysOut === undefined && { key: text }) });
        return null;
      }
      return `${key.name} was created, but its key was not written to ${given.keysOut ?? "stdout"}: ${problem}; print another one with farebox keys rotate ${key.name}`;
    },
  });
  return { plan, ...applied, keys };
}

function failureText({ change, message }: NonNullable<Applied["failed"]>, made: Applied["made"]): string {
  if (made.at(-1) === change)
    return `${message}; made ${counted(made.length, "change")}; run apply again to make the others`;
  return `cannot ${verbOf(change)} ${change.object}: ${message}; made ${counted(made.length, "change")} before this one; run apply again to make the others`;
}

/** Converts a change to JSON, with the names of action and object that `audit` uses. */
function changeJson({ call, object, fields }: PlannedChange) {
  const changes = Object.fromEntries(fields.map(({ field, before, after }) => [field, { before, after }]));
  return { action: call.action, object, changes };
}

function printPlan(io: Io, { changes, kept }: Plan, print: typeof note): void {
  const lines = [
    ...changes.map((change) => {
      const words = change.fields.map(({ field, before, after }) =>
        change.isNew ? `${field} ${shown(field, after)}` : `${field} ${shown(field, before)} → ${shown(field, after)}`,
      );
      return `${verbOf(change)} ${change.object}${words.length === 0 ? "" : `: ${words.join(", ")}`}`;
    }),
    ...kept.map((change) => `keep ${change.object}: it is not in the file; --prune would ${verbOf(change)} it`),
    summaryOf(changes),
  ];
  for (const line of lines) print(io, line);
}

/** Returns the number of changes of each kind: "5 to create, 1 to change, 0 to remove". */
function summaryOf(changes: readonly PlannedChange[]): string {
  if (changes.length === 0) return "nothing to do";
  const verbs = changes.map(verbOf);
  const made = verbs.filter((verb) => verb === "create").length;
  const changed = verbs.filter((verb) => verb === "change").length;
  return `${made} to create, ${changed} to change, ${changes.length - made - changed} to remove`;
}

function shown(field: string, value: PlannedChange["fields"][number]["after"]): string {
  if (value === null) return field === "models" ? "all" : "none";
  return typeof value === "object" ? value.join(",") : String(value);
}

function verbOf({ call, isNew }: PlannedChange): string {
  switch (call.action) {
    case "teams.create":
    case "keys.create":
      return "create";
    case "teams.update":
    case "keys.update":
      return "change";
    case "budgets.set":
      return isNew ? "create" : "change";
    case "keys.revoke":
      return "revoke";
    case "teams.remove":
    case "budgets.remove":
      return "remove";
  }
}
