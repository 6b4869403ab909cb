import { setTimeout as pause } from "node:timers/promises";
import type { CopiedLedger, Upkeep, UpkeepResult } from "../cli/adapters.ts";
import { storeProblem } from "../cli/context.ts";
import type { ExitCode } from "../cli/io.ts";
import { isSame, placeProblem } from "../cli/out-file.ts";
import type { Clock } from "../ports/clock.ts";
import { backUp, migrateFile, restore, type CopyFailure } from "../store/sqlite/backup.ts";
import { pruneFile } from "../store/sqlite/prune-file.ts";
import { repair } from "../store/sqlite/repair.ts";
import { calendarOf } from "../time/calendar.ts";

/** The work of `farebox db` on the SQLite file. */
export function createUpkeep(clock: Clock): Upkeep {
  return {
    async migrate({ database: { path } }) {
      const result = await migrateFile(path);
      return result.ok ? result : ledgerRefused(result.failure, path);
    },

    async backUp({ database: { path }, timeZone }, file, { replace, onProgress }) {
      const problem = placeProblem(file, path, "backup", replace);
      if (problem !== null) return refused(problem);
      const result = await backUp({ path, file, calendar: calendarOf(timeZone), onProgress });
      return result.ok ? { ok: true, ...result.copied } : ledgerRefused(result.failure, path);
    },

    async restore({ database: { path }, timeZone }, file, onProgress) {
      if (isSame(file, path)) return refused(`${file} is the ledger itself; name a backup of it`);
      const result = await restore({ path, file, calendar: calendarOf(timeZone), stamp: stampOf(clock.now()), onProgress });
      if (result.ok) return { ok: true, ...result.copied, replaced: result.replaced };
      if ("verification" in result) return refused(unsound(file, result.verification.differences.length), 1);
      return result.of === "ledger" ? ledgerRefused(result.failure, path) : backupRefused(result.failure, file);
    },

    async repair({ database: { path }, timeZone }, on) {
      const result = await repair({ path, calendar: calendarOf(timeZone), clock, pause, ...on });
      return result.ok ? result : ledgerRefused(result.failure, path);
    },

    async prune({ database: { path }, timeZone }, { olderThanMs, dryRun, onProgress }) {
      const result = await pruneFile({ path, calendar: calendarOf(timeZone), clock, pause, olderThanMs, dryRun, onProgress });
      return result.ok ? { ok: true, ...result.pruned } : ledgerRefused(result.failure, path);
    },
  };
}

/** One sentence on why the ledger's file could not be worked on. */
export function ledgerProblem(failure: CopyFailure, path: string): string {
  switch (failure.kind) {
    case "in_use":
      return `a farebox serve runs on the ledger at ${path}; stop it first`;
    case "busy":
      return `another process has the ledger at ${path} open; let it end first`;
    case "corrupt":
      return `the copy of the ledger at ${path} is damaged, and so may be the ledger: ${failure.message}`;
    case "missing":
    case "newer_schema":
    case "unusable":
      return storeProblem(failure, path);
  }
}

function backupProblem(failure: CopyFailure, file: string): string {
  switch (failure.kind) {
    case "missing":
      return `there is no ledger in ${file}`;
    case "newer_schema":
      return `${file} was written by a newer farebox; restore it with that version or a later one`;
    case "corrupt":
      return `${file} is damaged: ${failure.message}; the ledger stays as it is`;
    case "in_use":
    case "busy":
      return `another process has ${file} open; let it end first`;
    case "unusable":
      return `${file} cannot be restored: ${failure.message}`;
  }
}

function unsound(file: string, differences: number): string {
  return `${file} does not agree with itself (${differences} differences; farebox verify --database shows them); the ledger stays as it is`;
}

function refused(problem: string, code: ExitCode = 2): UpkeepResult<CopiedLedger> & { readonly ok: false } {
  return { ok: false, problem, code };
}

function ledgerRefused(failure: CopyFailure, path: string) {
  return refused(ledgerProblem(failure, path), failure.kind === "corrupt" ? 1 : 2);
}

function backupRefused(failure: CopyFailure, file: string) {
  return refused(backupProblem(failure, file), failure.kind === "corrupt" ? 1 : 2);
}

/** "2026-11-20T120000Z": an instant that can stand in a file's name. */
function stampOf(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+/, "").replaceAll(":", "");
}
