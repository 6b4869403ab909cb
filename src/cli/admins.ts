import { createAdmin, newAdminSchema, revokeAdmin, showAdmin, type NewAdmin } from "../admin/admin-changes.ts";
import { inputFault } from "../admin/result.ts";
import { adminRoles, type AdminRole } from "../core/keys.ts";
import { adminJson, newAdminJson } from "../reporting/details.ts";
import { isoTime } from "../core/time.ts";
import { lifetimeArgument } from "./arguments.ts";
import { command, json } from "./command.ts";
import { note, printLine } from "./io.ts";
import { fieldColumns, printRows } from "./table.ts";

const newAdmin = (
  name: string,
  options: { readonly role: AdminRole; readonly expires: number | undefined },
): NewAdmin => ({
  name,
  role: options.role,
  lifetimeMs: options.expires ?? null,
});

/** Commands for the admins of the admin API and their tokens. */
export const commands = [
  command("admins create <name>", {
    summary: "create an admin and print the token, which cannot be shown again: the ledger stores only its digest",
    options: {
      role: {
        value: "<role>",
        help: "viewers can only read; editors can also make changes",
        choices: adminRoles,
        required: true,
      },
      expires: {
        value: "<duration>",
        help: "lifetime of the token, such as 30d (default: no expiry)",
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
    summary: "list all admins, including revoked ones",
    options: { json },
    ledger: "read",
    examples: ["farebox admins list"],
    run: async ({ admins, clock }) => ({
      admins: (await admins.list()).map((admin) => adminJson(admin, clock.now())),
    }),
    print: (io, { admins }) =>
      printRows(io, admins, {
        ...fieldColumns("name", "id", "role", "state"),
        created: ({ created_at }) => created_at,
        expires: ({ expires_at }) => expires_at ?? "never",
      }),
  }),

  command("admins revoke <admin>", {
    summary: "revoke an admin's token permanently; a running farebox refuses it from the next request",
    options: { yes: { help: "revoke without asking for confirmation" }, json },
    ledger: "change",
    examples: ["farebox admins revoke carol"],
    run: async (tools, options, nameOrId) => {
      const shown = await showAdmin(tools.admins, nameOrId);
      if (!shown.ok) return shown;
      const asks = !options.yes && !options.json && shown.admin.revokedAt === null;
      if (asks && (await tools.ask(`Revoke the token of ${shown.admin.name} permanently?`)) === false) {
        note(tools.io, "nothing was changed");
        return 0;
      }
      return await revokeAdmin(tools, nameOrId);
    },
    json: ({ admin }, { clock }) => adminJson(admin, clock.now()),
    print: (io, { admin: { name, revokedAt }, first }) =>
      printLine(io, first ? `revoked ${name}` : `${name} was already revoked at ${isoTime(revokedAt ?? 0)}`),
  }),
];
