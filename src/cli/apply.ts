import { applyFileKind, type ApplyFile } from "../admin/apply-file.ts";
import { planOf, type Plan, type PlannedChange, type Present } from "../admin/apply-plan.ts";
import { applyChanges, readPresent, type Applied } from "../admin/apply.ts";
import { ledgerFile, shownDatabase } from "../config/database.ts";
import { formatFault } from "../core/fault.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { ReadYaml } from "../ports/yaml.ts";
import { keysGoTo, keysOutProblem, type NewKey } from "./apply-keys.ts";
import { calendarOf } from "../platform/clock.ts";
import { readYaml } from "../platform/yaml.ts";
import { command, json, refusal, type Given, type Refusal } from "./command.ts";
import { note, printJson, printLine, type ExitCode, type Io } from "./io.ts";
import { ledgerSettings, storeProblem, type LedgerTools, type Tools } from "./tools.ts";

const help = `
The plan comes first; then its changes are made, in its order. A second run finds nothing to do. A section that the file
does not have (teams, keys, budgets) is left alone; what a key or team leaves out is the default. New keys are printed to
stdout, this once, as NAME<TAB>KEY; the plan then goes to stderr.

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
  prune: { help: "also revoke keys and remove budgets and teams that the file does not have" },
  keysOut: { value: "<file>", help: "write new keys to a new file that only you may read, instead of stdout" },
  json,
} as const;

type ApplyOptions = Given<typeof options>;

export const commands = [
  command("apply <file>", {
    options,
    settings: ledgerSettings,
    help,
    examples: ["farebox apply company.yaml --dry-run", "farebox apply company.yaml --prune --keys-out new-keys.tsv"],
    run: async (tools, given, name) => {
      const { io, settings, clock } = tools;
      const read = await readApplyFile(tools, name);
      if (typeof read === "string") return refusal(read);
      if (read.faults.length > 0) return refusal(read.faults.map(formatFault), 1);
      const problem = given.keysOut === undefined ? null : keysOutProblem(given.keysOut, ledgerFile(settings.database));
      if (problem !== null) return refusal(problem);

      // Check first, without writing: a faulty file, or one without changes, must not create a ledger.
      const found = await presentState(tools);
      if (!found.ok) return found;
      const planning = planFor(clock.now(), read, given, found.present, found.calendar);
      if (!planning.ok) return planning;
      if (given.dryRun || planning.plan.changes.length === 0) return printPlan(io, planning.plan, given);
      return await tools.withLedger("create", async (open) => {
        const again = planFor(clock.now(), read, given, await readPresent(open), open.calendar);
        return again.ok ? await carryOut(open, again, given) : again;
      });
    },
  }),
];

type Found = { readonly ok: true; readonly present: Present; readonly calendar: Calendar } | Refusal;

/** Reads the present state. A missing ledger counts as empty. */
async function presentState({ openLedger, settings }: Tools): Promise<Found> {
  const opening = await openLedger("read");
  if (opening.ok) {
    await using store = opening.store;
    return { ok: true, present: await readPresent(store), calendar: calendarOf(store.timeZone) };
  }
  if (opening.failure.kind !== "missing")
    return refusal(storeProblem(opening.failure, shownDatabase(settings.database)));
  return { ok: true, present: { teams: [], keys: [], budgets: [] }, calendar: calendarOf(settings.timeZone) };
}

/** Reads the file and its faults. Returns a message if the file cannot be read. */
async function readApplyFile({ readFile, readStdin }: Tools, name: string): Promise<ReadYaml<ApplyFile> | string> {
  if (name === "-") return readYaml("stdin", (await readStdin()).toString(), applyFileKind);
  const read = readFile(name);
  if (read.ok) return readYaml(name, read.text, applyFileKind);
  return read.code === "ENOENT" ? `there is no file ${name}` : `${name} cannot be read (${read.code})`;
}

type FilePlanning = { readonly ok: true; readonly plan: Plan; readonly at: number } | Refusal;

function planFor(
  now: number,
  read: ReadYaml<ApplyFile>,
  { prune }: ApplyOptions,
  present: Present,
  calendar: Calendar,
): FilePlanning {
  const planning = planOf({ file: read.value, present, prune, now, calendar });
  if (planning.ok) return { ok: true, plan: planning.plan, at: now };
  return refusal(
    planning.faults.map(({ path, message }) => formatFault(read.faultAt(path, message))),
    1,
  );
}

function printPlan(io: Io, plan: Plan, { json, dryRun }: ApplyOptions): ExitCode {
  const print = dryRun ? printLine : note;
  if (json) printJson(io, { ...planJson(plan), applied: 0, failed: null, keys: [] });
  else for (const line of [...planLines(plan), sumOf(plan)]) print(io, line);
  return 0;
}

async function carryOut(
  tools: LedgerTools,
  { plan, at }: { readonly plan: Plan; readonly at: number },
  given: ApplyOptions,
): Promise<ExitCode | Refusal> {
  const { io } = tools;
  const makesKeys = plan.changes.some(({ desired }) => desired.action === "keys.create");
  if (!given.json) for (const line of [...planLines(plan), sumOf(plan)]) note(io, line);
  const keys: NewKey[] = [];
  const out = await keysGoTo(makesKeys ? given.keysOut : undefined, (line) => {
    if (!given.json) io.stdout.write(line);
  });
  if (!out.ok) return refusal(out.problem);
  let applied: Applied;
  try {
    applied = await applyChanges(tools, plan.changes, {
      at,
      onKey: async ({ key, text }) => {
        keys.push({ id: key.id, name: key.name, ...(given.keysOut === undefined && { key: text }) });
        await out.write(`${key.name}\t${text}\n`);
      },
    });
  } finally {
    await out.close();
  }
  return printApplied(io, plan, applied, keys, given);
}

function printApplied(
  io: Io,
  plan: Plan,
  { made, failed }: Applied,
  keys: readonly NewKey[],
  { json, keysOut }: ApplyOptions,
): ExitCode | Refusal {
  if (json) {
    printJson(io, {
      ...planJson(plan),
      applied: made.length,
      failed: failed && { object: failed.change.object, message: failed.message },
      keys,
    });
  } else {
    if (keysOut !== undefined && keys.length > 0)
      note(
        io,
        `wrote ${keys.length} new ${keys.length === 1 ? "key" : "keys"} to ${keysOut}; they cannot be shown again`,
      );
    if (failed === null) note(io, `made ${count(made.length)}`);
  }
  if (failed === null) return 0;
  const { change, message } = failed;
  return refusal(
    `${verbOf(change)} ${change.object}: ${message}; made ${count(made.length)} before, a second run makes the rest`,
    1,
  );
}

function count(changes: number): string {
  return `${changes} ${changes === 1 ? "change" : "changes"}`;
}

function planJson({ changes, kept }: Plan) {
  return { changes: changes.map(changeJson), kept: kept.map(changeJson) };
}

/** Converts a change to JSON, with the names of action and object that `audit` uses. */
function changeJson({ desired, object, fields }: PlannedChange) {
  const changes = Object.fromEntries(fields.map(({ field, before, after }) => [field, { before, after }]));
  return { action: desired.action, object, changes };
}

function planLines({ changes, kept }: Plan): string[] {
  return [
    ...changes.map((change) => {
      const words = change.fields.map(({ field, before, after }) =>
        change.isNew ? `${field} ${shown(after)}` : `${field} ${shown(before)} → ${shown(after)}`,
      );
      return `${verbOf(change)} ${change.object}${words.length === 0 ? "" : `: ${words.join(", ")}`}`;
    }),
    ...kept.map((change) => `keep ${change.object}: it is not in the file; with --prune: ${verbOf(change)}`),
  ];
}

/** Counts the changes of a plan by kind: "5 to create, 1 to change, 0 to remove". */
function sumOf({ changes }: Plan): string {
  if (changes.length === 0) return "nothing to do";
  const verbs = changes.map(verbOf);
  const made = verbs.filter((verb) => verb === "create").length;
  const changed = verbs.filter((verb) => verb === "change").length;
  return `${made} to create, ${changed} to change, ${changes.length - made - changed} to remove`;
}

function shown(value: PlannedChange["fields"][number]["after"]): string {
  if (value === null) return "none";
  return typeof value === "object" ? value.join(",") : String(value);
}

function verbOf({ desired, isNew }: PlannedChange): string {
  switch (desired.action) {
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
    case "teams.delete":
      return "delete";
    case "budgets.remove":
      return "remove";
  }
}
