import {
  createKey,
  keyChangeSchema,
  listKeys,
  newKeySchema,
  revokeKey,
  rotateKey,
  showKey,
  updateKey,
  type KeyUpdate,
  type NewKey,
} from "../admin/keys.ts";
import { changeFault, inputFault } from "../admin/result.ts";
import { keyJson, newKeyJson, rotatedKeyJson } from "../reporting/keys.ts";
import { isoTime, ownName } from "../reporting/names.ts";
import { standingOf } from "../reporting/standing.ts";
import { lifetimeArgument, newLifetimeArgument, overlapArgument } from "./arguments.ts";
import { printStandings } from "./budgets.ts";
import { command, json, type Given } from "./command.ts";
import { note, printLine } from "./io.ts";
import { limitChanges, limitColumns, limitOptions } from "./limit-options.ts";
import { printFields, printRows } from "./table.ts";

const createOptions = {
  ...limitOptions,
  team: {
    value: "<team>",
    help: "the team that the key belongs to; created without limits if it does not exist",
  },
  expires: {
    value: "<duration>",
    help: "after how long it stops working, such as 30d (default: never)",
    parse: lifetimeArgument,
  },
  json: { help: "print the key with its id and settings as JSON" },
} as const;

function newKey(name: string, { team, expires, ...limits }: Given<typeof createOptions>): NewKey {
  return { name, team: team ?? null, lifetimeMs: expires ?? null, ...limitChanges(limits) };
}

const updateOptions = {
  ...limitOptions,
  team: { value: "<team>", help: "move it to this team; its earlier charges stay with the previous team" },
  noTeam: { help: "take it out of its team" },
  expires: {
    value: "<duration>",
    help: "after how long from now it stops working, such as 30d, or never",
    parse: newLifetimeArgument,
  },
  json,
} as const;

function keyChange({ team, noTeam, expires, ...limits }: Given<typeof updateOptions>): KeyUpdate {
  return { ...limitChanges(limits), team: noTeam ? null : team, lifetimeMs: expires === "never" ? null : expires };
}

export const commands = [
  command("keys create <name>", {
    summary: "create a key and print it, only this once: the ledger stores its digest",
    options: createOptions,
    ledger: "create",
    examples: ["farebox keys create alice --team research --models 'gpt-4o*' --expires 30d --rpm 60"],
    check: (options, name) => inputFault(newKeySchema, newKey(name, options)),
    run: async (tools, options, name) => {
      const { team } = options;
      const isNewTeam = team !== undefined && (await tools.teams.find(team)) === undefined;
      const created = await createKey(tools, newKey(name, options));
      return created.ok ? { ...created, newTeam: isNewTeam ? team : null } : created;
    },
    json: ({ key, text }) => newKeyJson(key, text),
    print: (io, { text }) => printLine(io, text),
    notes: ({ key, newTeam }, io) => [
      ...(newTeam === null ? [] : [`note: team ${newTeam} is new; it has no limits`]),
      ...(io.isTTY ? [`This is the key of ${key.name}. It cannot be shown again.`] : []),
    ],
  }),

  command("keys list", {
    summary: "list all keys, revoked ones too",
    options: { json },
    ledger: "read",
    examples: ["farebox keys list"],
    run: async ({ keys, clock }) => {
      const now = clock.now();
      return { keys: (await listKeys(keys)).map((key) => keyJson(key, now)) };
    },
    print: (io, { keys }) =>
      printRows(io, keys, {
        name: ({ name }) => name,
        id: ({ id }) => id,
        team: ({ team }) => team,
        models: ({ models }) => models?.join(",") ?? "all",
        ...limitColumns,
        state: ({ state }) => state,
        created: ({ created_at }) => created_at,
        expires: ({ expires_at }) => expires_at ?? "never",
      }),
  }),

  command("keys show <name-or-id>", {
    summary: "show a key's settings and the budgets that apply to it",
    options: { json },
    ledger: "read",
    examples: ["farebox keys show alice"],
    run: async ({ keys, ledger, clock }, _options, nameOrId) => {
      const shown = await showKey(keys, nameOrId);
      if (!shown.ok) return shown;
      const { key } = shown;
      const now = clock.now();
      const windows = await ledger.windowsOf({ key: key.id, team: key.team }, now);
      return { ...keyJson(key, now), budgets: windows.map((window) => standingOf(window, ownName(key))) };
    },
    print: (io, { budgets, limits, ...fields }) => {
      printFields(io, Object.entries({ ...fields, models: fields.models?.join(",") ?? "all", ...limits }));
      if (budgets.length === 0) return;
      printLine(io, "");
      printStandings(io, budgets);
    },
  }),

  command("keys update <name-or-id>", {
    summary: "change the given settings; a running farebox applies them within a second",
    options: updateOptions,
    ledger: "change",
    examples: [
      "farebox keys update alice --rpm 60 --tpm 200000",
      "farebox keys update alice --parallel none --models all",
    ],
    check: (options) => changeFault(keyChangeSchema, keyChange(options)),
    run: (tools, options, nameOrId) => updateKey(tools, nameOrId, keyChange(options)),
    json: ({ key }, { clock }) => keyJson(key, clock.now()),
    print: (io, { key }) => printLine(io, `updated ${key.name}`),
  }),

  command("keys rotate <name-or-id>", {
    summary: "give a key a new secret and print it, only this once; the present secret stays valid for a while",
    options: {
      overlap: {
        value: "<duration>",
        help: "how long the present secret still works, or 0 (default: 24h)",
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

  command("keys revoke <name-or-id>", {
    summary: "revoke a key permanently; a running farebox refuses it within a second",
    options: { yes: { help: "revoke it without asking; only a terminal is asked" }, json },
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
      printLine(io, first ? `revoked ${name}` : `${name} was revoked at ${isoTime(revokedAt ?? 0)} already`),
  }),
];
