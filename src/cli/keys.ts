import {
  createKey,
  keyChangeSchema,
  newKeySchema,
  resumeKey,
  revokeKey,
  rotateKey,
  showKey,
  suspendKey,
  updateKey,
  type KeyUpdate,
  type NewKey,
} from "../admin/key-changes.ts";
import { nearest } from "../core/fault.ts";
import { callerOf } from "../core/scope.ts";
import { changeFault, inputFault } from "../admin/result.ts";
import type { TeamStore } from "../ports/stores.ts";
import { keyJson, newKeyJson, rotatedKeyJson } from "../reporting/details.ts";
import { isoTime } from "../core/time.ts";
import { ownName, pairsText } from "../reporting/names.ts";
import { standingOf } from "../reporting/standing.ts";
import {
  lifetimeArgument,
  newLifetimeArgument,
  overlapArgument,
  pairArgument,
  pairChangeArgument,
  requirementsArgument,
} from "./arguments.ts";
import { printStandings } from "./budgets.ts";
import { command, json, type Given } from "./command.ts";
import { note, printLine } from "./io.ts";
import { limitChangeOptions, limitChanges, limitColumns, newLimitOptions } from "./limit-options.ts";
import { printFields, printRows, timeText } from "./table.ts";

const createOptions = {
  ...newLimitOptions,
  team: {
    value: "<team>",
    help: "team of the key; created without limits if it does not exist",
  },
  expires: {
    value: "<duration>",
    help: "lifetime of the key, such as 30d (default: no expiry)",
    parse: lifetimeArgument,
  },
  label: {
    value: "<label>",
    help: "label of the key, such as env=prod, for budgets and reports; may be repeated",
    parse: pairArgument("label"),
  },
  tag: {
    value: "<tag>",
    help: "tag of all requests, such as feature=search; replaces the request's value; may be repeated",
    parse: pairArgument("tag"),
  },
  user: { value: "<name>", help: "user of all requests; replaces the user that a request names" },
  require: {
    value: "<requirements>",
    help: "values that each request must name, such as user,tag:session; other requests are refused with 400",
    parse: requirementsArgument,
  },
  json: { help: "print the key with its id and settings as JSON" },
} as const;

function newKey(name: string, given: Given<typeof createOptions>): NewKey {
  const { team, expires, label: labels, tag: tags, user, require: requires, ...limits } = given;
  const values = { labels, tags, user: user ?? null, requires };
  return { name, team: team ?? null, lifetimeMs: expires ?? null, ...values, ...limitChanges(limits) };
}

const updateOptions = {
  ...limitChangeOptions,
  team: { value: "<team>", help: "move the key to this team; its earlier charges stay with the previous team" },
  noTeam: { help: "remove the key from its team" },
  expires: {
    value: "<duration>",
    help: "lifetime from now, such as 30d, or never for no expiry",
    parse: newLifetimeArgument,
  },
  label: {
    value: "<label>",
    help: "label to set, such as env=prod, or to remove, such as env=; may be repeated",
    parse: pairChangeArgument("label"),
  },
  tag: {
    value: "<tag>",
    help: "tag of all requests to set, such as feature=search, or to remove, such as feature=; may be repeated",
    parse: pairChangeArgument("tag"),
  },
  user: { value: "<name>", help: "user of all requests; replaces the user that a request names" },
  noUser: { help: "let each request name its own user" },
  require: {
    value: "<requirements>",
    help: "values that each request must name, such as user,tag:session, or none",
    parse: requirementsArgument,
  },
  json,
} as const;

function keyChange(given: Given<typeof updateOptions>): KeyUpdate {
  const { team, noTeam, expires, label: labels, tag: tags, user, noUser, require: requires, ...limits } = given;
  return {
    ...limitChanges(limits),
    team: noTeam ? null : team,
    lifetimeMs: expires === "never" ? null : expires,
    labels,
    tags,
    user: noUser ? null : user,
    requires,
  };
}

/** Returns a note if a key gets a team that does not exist yet; an empty list otherwise. */
async function newTeamNotes(teams: Pick<TeamStore, "list">, name: string | undefined): Promise<readonly string[]> {
  const known = (await teams.list()).map((team) => team.name);
  if (name === undefined || known.includes(name)) return [];
  const [near] = nearest(name, known);
  return [`note: team ${name} is new; it has no limits${near === undefined ? "" : `; did you mean ${near}?`}`];
}

export const commands = [
  command("keys create <name>", {
    summary: "create a key and print it; it cannot be shown again, because the ledger stores only its digest",
    options: createOptions,
    ledger: "create",
    examples: ["farebox keys create alice --team research --models 'gpt-4o*' --expires 30d --rpm 60"],
    check: (options, name) => inputFault(newKeySchema, newKey(name, options)),
    run: async (tools, options, name) => {
      const notes = await newTeamNotes(tools.teams, options.team);
      const created = await createKey(tools, newKey(name, options));
      return created.ok ? { ...created, notes } : created;
    },
    json: ({ key, text }) => newKeyJson(key, text),
    print: (io, { text }) => printLine(io, text),
    notes: ({ key, notes }, io) => [
      ...notes,
      ...(io.isTTY ? [`This is the key of ${key.name}. It cannot be shown again.`] : []),
    ],
  }),

  command("keys list", {
    summary: "list all keys, including revoked ones",
    options: { json },
    ledger: "read",
    examples: ["farebox keys list"],
    run: async ({ keys, clock }) => {
      const now = clock.now();
      return { keys: (await keys.list()).map((key) => keyJson(key, now)) };
    },
    print: (io, { keys }) =>
      printRows(io, keys, {
        name: { cell: ({ name }) => name, narrow: "cut" },
        id: { cell: ({ id }) => id, narrow: "last" },
        team: { cell: ({ team }) => team, narrow: "cut" },
        models: { cell: ({ models }) => models?.join(",") ?? "all", narrow: "cut" },
        ...limitColumns,
        state: ({ state }) => state,
        created: { cell: ({ created_at }) => timeText(io, created_at), narrow: "drop" },
        expires: ({ expires_at }) => timeText(io, expires_at) ?? "never",
      }),
  }),

  command("keys show <key>", {
    summary: "show a key's settings and the budgets that apply to it",
    options: { json },
    ledger: "read",
    examples: ["farebox keys show alice"],
    run: async ({ keys, ledger, lists, clock }, _options, nameOrId) => {
      const shown = await showKey(keys, nameOrId);
      if (!shown.ok) return shown;
      const { key } = shown;
      const now = clock.now();
      const byRequest = await lists.requestWindows(callerOf(key), now);
      const windows = [...(await ledger.windowsOf(callerOf(key), now)), ...byRequest];
      return { ...keyJson(key, now), budgets: windows.map((window) => standingOf(window, ownName(key))) };
    },
    print: (io, { budgets, limits, ...fields }) => {
      const shown = {
        models: fields.models?.join(",") ?? "all",
        labels: pairsText(fields.labels),
        tags: pairsText(fields.tags),
        requires: fields.requires.join(",") || null,
      };
      printFields(io, Object.entries({ ...fields, ...shown, ...limits }));
      if (budgets.length === 0) return;
      printLine(io, "");
      printStandings(io, budgets);
    },
  }),

  command("keys update <key>", {
    summary: "change the given settings; a running farebox applies them within a second",
    options: updateOptions,
    ledger: "change",
    examples: [
      "farebox keys update alice --rpm 60 --tpm 200000",
      "farebox keys update alice --parallel none --models all",
      "farebox keys update alice --label env=prod --tag team=search --require user,tag:session",
    ],
    check: (options) => changeFault(keyChangeSchema, keyChange(options)),
    run: async (tools, options, nameOrId) => {
      const notes = await newTeamNotes(tools.teams, options.team);
      const updated = await updateKey(tools, nameOrId, keyChange(options));
      return updated.ok ? { ...updated, notes } : updated;
    },
    json: ({ key }, { clock }) => keyJson(key, clock.now()),
    print: (io, { key }) => printLine(io, `updated ${key.name}`),
    notes: ({ notes }) => notes,
  }),

  command("keys rotate <key>", {
    summary: "give a key a new secret and print it; the current secret stays valid for the overlap",
    options: {
      overlap: {
        value: "<duration>",
        help: "time for which the current secret still works; 0 ends it now (default: 24h)",
        parse: overlapArgument,
      },
      json: { help: "print the key with its id and the end of the overlap as JSON" },
    },
    ledger: "change",
    examples: ["farebox keys rotate alice --overlap 24h"],
    run: async (tools, { overlap }, nameOrId) => {
      const rotated = await rotateKey(tools, nameOrId, { overlapMs: overlap });
      return rotated.ok ? { text: rotated.text, shown: rotatedKeyJson(rotated.key, rotated.text) } : rotated;
    },
    json: ({ shown }) => shown,
    print: (io, { text, shown: { previous_valid_until: until } }) => {
      printLine(io, text);
      note(
        io,
        until === null ? `The previous secret is no longer valid.` : `The previous secret is valid until ${until}.`,
      );
    },
  }),

  command("keys suspend <key>", {
    summary: "refuse a key's requests until the key is resumed; a running farebox applies the change within a second",
    options: { json },
    ledger: "change",
    examples: ["farebox keys suspend alice"],
    run: (tools, _options, nameOrId) => suspendKey(tools, nameOrId),
    json: ({ key }, { clock }) => keyJson(key, clock.now()),
    print: (io, { key: { name, suspendedAt }, first }) =>
      printLine(io, first ? `suspended ${name}` : `${name} was already suspended at ${isoTime(suspendedAt ?? 0)}`),
  }),

  command("keys resume <key>", {
    summary: "admit the requests of a suspended key again",
    options: { json },
    ledger: "change",
    examples: ["farebox keys resume alice"],
    run: (tools, _options, nameOrId) => resumeKey(tools, nameOrId),
    json: ({ key }, { clock }) => keyJson(key, clock.now()),
    print: (io, { key: { name }, first }) => printLine(io, first ? `resumed ${name}` : `${name} is not suspended`),
  }),

  command("keys revoke <key>", {
    summary: "revoke a key permanently; a running farebox refuses it within a second",
    options: { yes: { help: "revoke without asking for confirmation" }, json },
    ledger: "change",
    examples: ["farebox keys revoke alice"],
    run: async (tools, options, nameOrId) => {
      const shown = await showKey(tools.keys, nameOrId);
      if (!shown.ok) return shown;
      const asks = !options.yes && !options.json && shown.key.revokedAt === null;
      if (asks && (await tools.ask(`Revoke the key ${shown.key.name} permanently?`)) === false) {
        note(tools.io, "nothing was changed");
        return 0;
      }
      return await revokeKey(tools, nameOrId);
    },
    json: ({ key }, { clock }) => keyJson(key, clock.now()),
    print: (io, { key: { name, revokedAt }, first }) =>
      printLine(io, first ? `revoked ${name}` : `${name} was already revoked at ${isoTime(revokedAt ?? 0)}`),
  }),
];
