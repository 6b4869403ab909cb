import { createAdmin, newAdminSchema, revokeAdmin, type NewAdmin } from "../admin/admins.ts";
import { inputFault } from "../admin/result.ts";
import { adminRoles, type AdminRole } from "../core/keys.ts";
import { adminJson, newAdminJson } from "../reporting/admins.ts";
import { isoTime } from "../reporting/names.ts";
import { lifetimeArgument } from "./arguments.ts";
import { command, json } from "./command.ts";
import { printLine } from "./io.ts";
import { printRows } from "./table.ts";

const newAdmin = (
  name: string,
  options: { readonly role: AdminRole; readonly expires: number | undefined },
): NewAdmin => ({
  name,
  role: options.role,
  lifetimeMs: options.expires ?? null,
});

/** Commands for the tokens of the admin API. */
export const commands = [
  command("admins create <name>", {
    summary: "create an admin's token and print it, only this once: the ledger stores its digest",
    options: {
      role: { value: "<role>", help: "viewers read, editors also change", choices: adminRoles, required: true },
      expires: {
        value: "<duration>",
        help: "after how long it stops working, such as 30d (default: never)",
        parse: lifetimeArgument,
      },
      json: { help: "print the token with its id and role as JSON" },
    },
    ledger: "create",
    examples: ["farebox admins create carol --role editor --expires 90d"],
    check: (options, name) => inputFault(newAdminSchema, newAdmin(name, options)),
    run: (tools, options, name) => createAdmin(tools, newAdmin(name, options)),
    json: ({ admin, text }) => newAdminJson(admin, text),
    print: (io, { text }) => printLine(io, text),
    notes: ({ admin }, io) => (io.isTTY ? [`This is the token of ${admin.name}. It cannot be shown again.`] : []),
  }),

  command("admins list", {
    summary: "list all admins, revoked ones too",
    options: { json },
    ledger: "read",
    examples: ["farebox admins list"],
    run: async ({ admins, clock }) => ({
      admins: (await admins.list()).map((admin) => adminJson(admin, clock.now())),
    }),
    print: (io, { admins }) =>
      printRows(io, admins, {
        name: ({ name }) => name,
        id: ({ id }) => id,
        role: ({ role }) => role,
        state: ({ state }) => state,
        created: ({ created_at }) => created_at,
        expires: ({ expires_at }) => expires_at ?? "never",
      }),
  }),

  command("admins revoke <name-or-id>", {
    summary: "revoke an admin's token permanently; a running farebox refuses it from the next request on",
    options: { json },
    ledger: "change",
    examples: ["farebox admins revoke carol"],
    run: (tools, _options, nameOrId) => revokeAdmin(tools, nameOrId),
    json: ({ admin }, { clock }) => adminJson(admin, clock.now()),
    print: (io, { admin: { name, revokedAt }, first }) =>
      printLine(io, first ? `revoked ${name}` : `${name} was revoked at ${isoTime(revokedAt ?? 0)} already`),
  }),
];
