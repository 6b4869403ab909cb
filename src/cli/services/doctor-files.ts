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
import type { Settings } from "../../config/settings.ts";
import {
  failed,
  judgeDisk,
  judgeNames,
  judgePending,
  judgeWal,
  listed,
  ok,
  skipped,
  warning,
  type Check,
} from "../../reporting/doctor.ts";
import { ledgerProblem } from "../../server/database.ts";

/** Checks the ledger's file, folder and disk. Creates nothing. */
export async function examineFile(given: string, settings: Settings, now: number): Promise<Check[]> {
  const path = existsSync(given) ? realpathSync(given) : resolve(given);
  const folder = dirname(path);
  const place = examineFolder(folder);
  if (place !== null) return [place];
  const disk = diskOf(folder);
  if (!existsSync(path))
    return [ok("database", `none yet at ${path}; the first serve or keys create creates it`), disk];

  const names = judgeNames(path, statSync(path).nlink, isMountPoint(path, mountinfo()));
  const { inspectFile, mayWrite } = await import("../../ledger/sqlite/inspect.ts");
  const inspected = await inspectFile(path);
  if (!inspected.ok) {
    const advice = "see docs/troubleshooting.md, or farebox db restore FILE with a backup";
    return [failed("database", ledgerProblem(inspected.failure, path), advice), ...names, disk];
  }
  if (!mayWrite(path))
    return [failed("database", `this user may not write ${path}`, `chown it to the user that runs farebox`), disk];
  const { schema, known, timeZone, pending, isServed } = inspected.state;
  const runs = isServed ? "a serve runs on it" : "no serve runs on it";
  return [
    schema < known
      ? warning(
          "database",
          `${path} has schema version ${schema} of an earlier release; ${runs}`,
          `the next serve brings it to ${known} after a backup, or farebox db migrate does now`,
        )
      : ok("database", `${path}, schema version ${schema}; ${runs}`),
    ...names,
    disk,
    judgeWal(existsSync(`${path}-wal`) ? statSync(`${path}-wal`).size : 0),
    judgePending(pending, now, isServed),
    zoneOf(settings.timeZone, timeZone),
  ];
}

export function zoneOf(set: string, stored: string | null): Check {
  if (stored === null || stored === set) return ok("time zone", set);
  const advice = `the next serve with FAREBOX_TIME_ZONE=${set} rebuilds windows and days; set ${stored} to keep them`;
  return warning("time zone", `the ledger counts in ${stored}, the settings say ${set}`, advice);
}

/** Checks the folder. Returns null if a ledger can be created and written there. */
function examineFolder(folder: string): Check | null {
  if (!existsSync(folder))
    return failed("database", `there is no folder ${folder}`, "make it, or name another place (FAREBOX_DATABASE)");
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return null;
  } catch {
    return failed(
      "database",
      `this user may not write in ${folder}`,
      "chown it to the user that runs farebox, or name another place (FAREBOX_DATABASE)",
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

/** Returns true if the path itself is mounted, by the fifth field of `/proc/self/mountinfo`. */
export function isMountPoint(path: string, mounts: string): boolean {
  const unescaped = (field: string) =>
    field.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
  return mounts.split("\n").some((line) => unescaped(line.split(" ")[4] ?? "") === path);
}

export interface GuardedFiles {
  /** File of the ledger; null if it is not known. */
  readonly database: string | null;
  /** Files that hold a secret. */
  readonly secrets: readonly string[];
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
      warning("permissions", `other users may read ${listed(readable)}`, `chmod 600 ${readable.map(quoted).join(" ")}`),
    );
  if (writable.length > 0)
    checks.push(
      warning(
        "permissions",
        `other users may change the prices in ${listed(writable)}`,
        `chmod go-w ${writable.map(quoted).join(" ")}`,
      ),
    );
  return checks.length > 0 ? checks : [ok("permissions", "ledger, secrets and prices are this user's own")];
}

/** Lists the ledger, SQLite's files next to it, and the copies that farebox keeps there. */
function ledgerFiles(database: string): string[] {
  const path = existsSync(database) ? realpathSync(database) : resolve(database);
  const folder = dirname(path);
  if (!existsSync(folder)) return [];
  const name = basename(path);
  const mine = (other: string) =>
    other === name ||
    [`${name}-wal`, `${name}-shm`].includes(other) ||
    (/^\.(before|replaced)-/.test(other.slice(name.length)) && other.startsWith(name));
  return readdirSync(folder)
    .filter(mine)
    .map((other) => join(folder, other));
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
