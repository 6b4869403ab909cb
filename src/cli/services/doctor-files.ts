import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statfsSync,
  statSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { unboundUserScopes } from "../../admin/scopes.ts";
import { formatScope, parseScope } from "../../core/scope.ts";
import type { UserMode } from "../../core/keys.ts";
import type { Settings } from "../../config/settings.ts";
import {
  failed,
  judgeDisk,
  judgeFileNames,
  judgePending,
  judgeWal,
  listed,
  ok,
  skipped,
  warning,
} from "../../reporting/doctor.ts";
import type { Check } from "../../reporting/shapes/commands.ts";
import { ledgerProblem } from "./database.ts";

/** Checks the ledger's file, folder and disk. Creates nothing. */
export async function examineFile(given: string, settings: Settings, now: number): Promise<Check[]> {
  const path = existsSync(given) ? realpathSync(given) : resolve(given);
  const folder = dirname(path);
  const place = examineFolder(folder);
  if (place !== null) return [place];
  const disk = diskOf(folder);
  if (!existsSync(path))
    return [
      ok("database", `there is no ledger at ${path} yet; farebox serve or farebox keys create will create it`),
      disk,
    ];

  if (statSync(path).isDirectory())
    return [
      failed("database", `${path} is a folder`, `set FAREBOX_DATABASE to a file in it: ${join(path, "farebox.db")}`),
      disk,
    ];
  const names = judgeFileNames(path, statSync(path).nlink, isMountPoint(path, mountinfo()));
  const { inspectFile, mayWrite } = await import("../../ledger/sqlite/inspect.ts");
  const inspected = await inspectFile(path);
  if (!inspected.ok) {
    const advice = "see docs/troubleshooting.md, or farebox db restore FILE with a backup";
    return [failed("database", ledgerProblem(inspected.failure, path), advice), ...names, disk];
  }
  if (!mayWrite(path))
    return [failed("database", `this user cannot write ${path}`, `chown it to the user that runs farebox`), disk];
  const { schema, known, timeZone, pending, isServed, userScopes } = inspected.state;
  const runs = isServed ? "a proxy is using it" : "no proxy is using it";
  return [
    schema < known
      ? warning(
          "database",
          `${path} has schema version ${schema} of an earlier release; ${runs}`,
          `the next farebox serve upgrades it to ${known} after a backup; farebox db migrate upgrades it now`,
        )
      : ok("database", `${path}, schema version ${schema}; ${runs}`),
    ...names,
    disk,
    judgeWal(existsSync(`${path}-wal`) ? statSync(`${path}-wal`).size : 0),
    judgePending(pending, now, isServed),
    judgeTimeZone(settings.timeZone, timeZone),
    ...judgeUsers(settings.access.users, userScopes),
  ];
}

/**
 * Warns about budgets on users that have no effect in this mode, because charges contain users in another form or not
 * at all.
 */
export function judgeUsers(mode: UserMode, userScopes: readonly string[]): Check[] {
  const unbound = unboundUserScopes(
    userScopes.flatMap((text) => parseScope(text) ?? []),
    mode,
  );
  if (unbound.length === 0) return [];
  const [first, ...others] = unbound.map(formatScope);
  const which = others.length === 0 ? `the budget ${first} does` : `${unbound.length} budgets, such as ${first}, do`;
  return [
    warning(
      "users",
      `${which} not limit users, because FAREBOX_USERS is ${mode}`,
      "set FAREBOX_USERS to its former value, or remove these budgets and set them again",
    ),
  ];
}

/** Compares the configured time zone with that of the ledger; `stored` is null if the ledger states none. */
export function judgeTimeZone(set: string, stored: string | null): Check {
  if (stored === null || stored === set) return ok("time zone", set);
  const advice = `with ${set}, the next farebox serve rebuilds windows and days; set FAREBOX_TIME_ZONE to ${stored} to keep them`;
  return warning("time zone", `the ledger uses ${stored}, but FAREBOX_TIME_ZONE is ${set}`, advice);
}

/** Returns null if a ledger can be created and written in the folder; otherwise the failed check. */
function examineFolder(folder: string): Check | null {
  if (!existsSync(folder))
    return failed("database", `there is no folder ${folder}`, "create it, or set FAREBOX_DATABASE to another path");
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return null;
  } catch {
    return failed(
      "database",
      `this user cannot write in ${folder}`,
      "chown it to the user that runs farebox, or set FAREBOX_DATABASE to another path",
    );
  }
}

function diskOf(folder: string): Check {
  const { bavail, bsize } = statfsSync(folder);
  return judgeDisk(bavail * bsize, folder);
}

/** Returns Linux's list of this process's mounts; "" on other systems. */
function mountinfo(): string {
  try {
    return readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return "";
  }
}

/**
 * Returns true if the path itself is a mount point. `mounts` is the text of `/proc/self/mountinfo`, in which the fifth
 * field of each line is a mount point.
 */
export function isMountPoint(path: string, mounts: string): boolean {
  const unescaped = (field: string) =>
    field.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
  return mounts.split("\n").some((line) => unescaped(line.split(" ")[4] ?? "") === path);
}

interface GuardedFiles {
  /** File of the ledger; null if it is unknown or the ledger is in PostgreSQL. */
  readonly database: string | null;
  /** Files that hold a secret. */
  readonly secrets: readonly string[];
  /** Folder of price files; null if none is set. */
  readonly pricing: string | null;
}

/** Checks that no other user may read or change the files that farebox relies on. */
export function examinePermissions({ database, secrets, pricing }: GuardedFiles): Check[] {
  if (process.platform === "win32") return [skipped("permissions", "not checked on Windows")];
  const readable = [...(database === null ? [] : ledgerFiles(database)), ...secrets].filter(
    (file) => modeOf(file) & 0o077,
  );
  const priceFiles =
    pricing === null || !existsSync(pricing)
      ? []
      : [
          pricing,
          ...readdirSync(pricing)
            .filter((name) => /\.ya?ml$/.test(name))
            .map((name) => join(pricing, name)),
        ];
  const writable = priceFiles.filter((file) => modeOf(file) & 0o022);
  const checks: Check[] = [];
  if (readable.length > 0)
    checks.push(
      warning("permissions", `other users can read ${listed(readable)}`, `chmod 600 ${readable.map(quoted).join(" ")}`),
    );
  if (writable.length > 0)
    checks.push(
      warning(
        "permissions",
        `other users can change the prices in ${listed(writable)}`,
        `chmod go-w ${writable.map(quoted).join(" ")}`,
      ),
    );
  return checks.length > 0
    ? checks
    : [ok("permissions", "no other user can read the ledger and secrets or change the prices")];
}

/** Lists the ledger, SQLite's files next to it, and the copies that farebox keeps there. */
function ledgerFiles(database: string): string[] {
  const path = existsSync(database) ? realpathSync(database) : resolve(database);
  const folder = dirname(path);
  if (!existsSync(folder)) return [];
  const name = basename(path);
  const isOurs = (other: string) =>
    other === name ||
    [`${name}-wal`, `${name}-shm`].includes(other) ||
    (/^\.(before|replaced)-/.test(other.slice(name.length)) && other.startsWith(name));
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => isOurs(entry.name) && !entry.isDirectory())
    .map((entry) => join(folder, entry.name));
}

/** Returns the permission bits of a file; 0 if it is missing. */
function modeOf(file: string): number {
  try {
    return (lstatSync(file).isSymbolicLink() ? statSync(file) : lstatSync(file)).mode & 0o777;
  } catch {
    return 0;
  }
}

function quoted(file: string): string {
  return /^[\w./@-]+$/.test(file) ? file : `'${file.replaceAll("'", String.raw`'\''`)}'`;
}
