import { hourMs, isoTime } from "../core/time.ts";
import type { Preset } from "../core/price.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import { newestReview } from "./prices.ts";
import type { Check, DoctorJson } from "./shapes/commands.ts";

/** Findings of one part of `doctor`. */
export type Findings = Check | readonly Check[];

export function isHealthy(checks: readonly Check[]): boolean {
  return checks.every(({ status }) => status !== "failed");
}

export function doctorJson(checks: readonly Check[]): DoctorJson {
  return { ok: isHealthy(checks), checks };
}

export function ok(name: string, message: string): Check {
  return { name, status: "ok", message, advice: null };
}

export function warning(name: string, message: string, advice: string): Check {
  return { name, status: "warning", message, advice };
}

export function failed(name: string, message: string, advice: string): Check {
  return { name, status: "failed", message, advice };
}

export function skipped(name: string, message: string): Check {
  return { name, status: "skipped", message, advice: null };
}

/** Largest accepted difference between this machine's clock and the gateway's `Date` header, in milliseconds. */
const clockSkewMsMax = 30_000;

/**
 * Compares this machine's clock with the gateway's. `gatewayAt` is the gateway's time at the instant `at`; null if the
 * gateway does not state it.
 */
export function judgeClock(at: number, gatewayAt: number | null): Check {
  if (at < Date.UTC(2025, 0)) {
    return failed(
      "clock",
      `this machine's clock says ${isoTime(at)}`,
      "set the clock: days and budget windows depend on it",
    );
  }
  if (gatewayAt === null) return ok("clock", `${isoTime(at)}; the gateway's time is unknown`);
  const skewMs = at - gatewayAt;
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  if (Math.abs(skewMs) <= clockSkewMsMax) return ok("clock", `within ${Math.max(seconds, 1)} s of the gateway's clock`);
  const way = skewMs > 0 ? "ahead of" : "behind";
  return warning(
    "clock",
    `${seconds} s ${way} the gateway's clock`,
    "synchronize it with NTP (timedatectl set-ntp true): days and budget windows depend on it",
  );
}

/** Checks the loaded prices: the age of their last review, and models without a price. */
export function judgePrices(catalogue: Catalogue, preset: Preset, now: number): Check {
  const models = catalogue.list(now);
  const unpriced = models.filter(({ price }) => price === null).map(({ id }) => id);
  const { reviewed_on, age_days, review_due } = newestReview(catalogue, now);
  if (reviewed_on === null)
    return warning(
      "prices",
      `${models.length} models, preset ${preset} (FAREBOX_PRESET), none with a price in force`,
      "add price files (FAREBOX_PRICING)",
    );

  const without =
    unpriced.length === 0 ? "" : `; models without a price, which hard budgets refuse: ${listed(unpriced)}`;
  const message = `${models.length} models, preset ${preset} (FAREBOX_PRESET), last reviewed on ${reviewed_on}, ${age_days} ${age_days === 1 ? "day" : "days"} ago${without}`;
  if (!review_due) return ok("prices", message);
  return warning(
    "prices",
    message,
    "prices may have changed since then: update farebox, or import a current table (farebox prices import)",
  );
}

/** Largest number of names that a list shows. */
const listedMax = 5;

/** Joins names into a list such as "a, b, c and 4 more". */
export function listed(names: readonly string[]): string {
  const shown = names.slice(0, listedMax).join(", ");
  return names.length > listedMax ? `${shown} and ${names.length - listedMax} more` : shown;
}

/**
 * Age from which a pending hold is reported, in milliseconds. Such a hold belongs to a task or a very long stream, or
 * its process has ended.
 */
export const holdAgeMsMax = hourMs;

export function judgePending(
  pending: { readonly count: number; readonly oldestAt: number | null },
  now: number,
  isServed: boolean,
): Check {
  const { count, oldestAt } = pending;
  if (count === 0 || oldestAt === null) return ok("holds", "none pending");
  if (isServed && now - oldestAt <= holdAgeMsMax) return ok("holds", `${count} pending, none older than an hour`);
  const message = `${count} pending, the oldest since ${isoTime(oldestAt)}`;
  if (!isServed)
    return warning("holds", `${message}, and no proxy is running`, "the next farebox serve posts them as assumed");
  return warning(
    "holds",
    message,
    "farebox charges --state pending lists them; restarting farebox serve posts the holds of requests that have ended",
  );
}

/** Compares the number of workers with the number of cores. Returns no check for a single process. */
export function judgeWorkers(workers: number, cores: number): Findings {
  const name = "workers";
  const message = `${workers} on ${cores} ${cores === 1 ? "core" : "cores"}`;
  if (workers === 1) return [];
  if (workers <= cores) return ok(name, message);
  return warning(
    name,
    message,
    "more workers than cores slow each other down: FAREBOX_WORKERS=auto starts one for each core",
  );
}

/**
 * Returns a warning if the ledger's file has several names (hard links), and another if only the file is mounted, not
 * its folder. SQLite keeps the newest charges in a log next to the file, named after the path that was opened.
 */
export function judgeFileNames(path: string, links: number, isMounted: boolean): Check[] {
  const name = "ledger file";
  const checks: Check[] = [];
  if (links > 1) {
    checks.push(
      warning(
        name,
        `${path} has ${links} names (hard links)`,
        "remove the other names: a ledger opened under another name lacks the charges in its write-ahead log",
      ),
    );
  }
  if (isMounted) {
    checks.push(
      warning(
        name,
        `the volume contains only the file ${path}, not the write-ahead log next to it`,
        "mount its folder: charges in the log are lost with the container",
      ),
    );
  }
  return checks;
}

/**
 * Largest normal size of the write-ahead log, in bytes. If the log is larger, SQLite has stopped moving its contents
 * into the database.
 */
const walBytesMax = 256 * 1024 ** 2;

export function judgeWal(bytes: number): Check {
  const size = `${Math.ceil(bytes / 1024 ** 2)} MB`;
  if (bytes <= walBytesMax) return ok("write-ahead log", bytes === 0 ? "empty" : `at most ${size}`);
  return warning(
    "write-ahead log",
    size,
    "a long read keeps it from shrinking: stop reports, backups or other programs that have the ledger open",
  );
}

/** Free space below which the check fails, in bytes. */
const diskBytesLeast = 64 * 1024 ** 2;
/** Free space below which the check warns, in bytes. */
const diskBytesLow = 1024 ** 3;

export function judgeDisk(freeBytes: number, folder: string): Check {
  const message = `${Math.floor(freeBytes / 1024 ** 2)} MB free for ${folder}`;
  if (freeBytes < diskBytesLeast)
    return failed(
      "disk",
      message,
      "free disk space: on a full disk the ledger cannot be written, and no request is forwarded",
    );
  if (freeBytes < diskBytesLow)
    return warning("disk", message, "free disk space soon, or prune old charges (farebox db prune)");
  return ok("disk", message);
}
