import { Option, type Command } from "commander";
import { createAdmin, newAdminFault, revokeAdmin, type NewAdmin } from "../admin/admins.ts";
import { adminRoles, type AdminRole } from "../core/admins.ts";
import { adminJson, newAdminJson } from "../reporting/admins.ts";
import { isoTime } from "../reporting/names.ts";
import { lifetimeArgument } from "./arguments.ts";
import { changedBy, storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";

/** `admins`: tokens of the admin API. */
export function registerAdmins(program: Command, context: CliContext): void {
  const admins = program.command("admins").description("make, list and revoke tokens of the admin API");
  registerCreate(admins, context);
  registerList(admins, context);
  registerRevoke(admins, context);
}

function registerCreate(admins: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = admins
    .command("create <name>")
    .description("make an admin's token and print it, this once: only a digest of it is stored")
    .addOption(
      new Option("--role <role>", "viewers look, editors change too").choices(adminRoles).makeOptionMandatory(),
    )
    .option("--expires <duration>", "after how long it stops working, such as 30d (default: never)", lifetimeArgument)
    .option("--json", "print the token with its id and role as JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox admins create carol --role editor --expires 90d");
  command.action(
    context.run(async (name: string, options: { role: AdminRole; expires?: number; json?: true }) => {
      const wanted: NewAdmin = { name, role: options.role, lifetimeMs: options.expires ?? null };
      // Before the store is opened: a wrong wish must not leave a new database behind.
      const fault = newAdminFault(wanted);
      if (fault !== null) return fail(io, fault.message);
      return await withStore(context, command, "create", async ({ admins: store }) => {
        const created = await createAdmin({ admins: store, clock: adapters.clock, by: changedBy(context) }, wanted);
        if (!created.ok) return fail(io, created.message);
        if (options.json) printJson(io, newAdminJson(created.admin, created.text));
        else printLine(io, created.text);
        if (io.isTTY) note(io, `This is the token of ${name}. It cannot be shown again.`);
        return 0;
      });
    }),
  );
}

function registerList(admins: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = admins
    .command("list")
    .description("list all admins, revoked ones too")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox admins list");
  command.action(
    context.run((options: { json?: true }) =>
      withStore(context, command, "read", async (store) => {
        const now = adapters.clock.now();
        const found = (await store.admins.list()).map((admin) => adminJson(admin, now));
        if (options.json) printJson(io, { admins: found });
        else {
          const titles = ["name", "id", "role", "state", "created", "expires"];
          const rows = found.map((admin) => [
            admin.name,
            admin.id,
            admin.role,
            admin.state,
            admin.created_at,
            admin.expires_at ?? "never",
          ]);
          printTable(
            io,
            titles.map((title) => ({ title })),
            rows,
          );
        }
        return 0;
      }),
    ),
  );
}

function registerRevoke(admins: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = admins
    .command("revoke <name-or-id>")
    .description("close an admin's token for good; a running farebox heeds it with the next request")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox admins revoke carol");
  command.action(
    context.run((nameOrId: string, options: { json?: true }) =>
      withStore(context, command, "change", async (store) => {
        const revoked = await revokeAdmin(
          { admins: store.admins, clock: adapters.clock, by: changedBy(context) },
          nameOrId,
        );
        if (!revoked.ok) return fail(io, revoked.message);
        const { admin, first } = revoked;
        if (options.json) printJson(io, adminJson(admin, adapters.clock.now()));
        else
          printLine(
            io,
            first ? `revoked ${admin.name}` : `${admin.name} was revoked at ${isoTime(admin.revokedAt ?? 0)} already`,
          );
        return 0;
      }),
    ),
  );
}
