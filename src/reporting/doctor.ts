import type { Catalogue } from "../ports/catalogue.ts";
import { newestReview } from "./price-review.ts";

/** Result of one check of `doctor`. */
export interface Check {
  /** Name of the check, in a word or two. */
  readonly name: string;
  /** `skipped`: the check was not possible because another one failed. */
  readonly status: "ok" | "warning" | "failed" | "skipped";
  /** What the check found, in one sentence without secrets. */
  readonly message: string;
  /** What the user should do next; null if nothing is needed. */
  readonly advice: string | null;
}

export function isHealthy(checks: readonly Check[]): boolean {
  return checks.every(({ status }) => status !== "failed");
}

export function doctorJson(checks: readonly Check[]) {
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

/** Largest accepted difference between the gateway's clock, as its `Date` header states it, and ours, in milliseconds. */
const clockSkewMsMax = 30_000;

/**
 * Compares this machine's clock with the gateway's. `gatewayAt` is the gateway's time at the instant `at`; null if the
 * gateway does not state it.
 */
export function judgeClock(at: number, gatewayAt: number | null): Check {
  if (at < Date.UTC(2025, 0)) {
    return failed(
      "clock",
      `this machine's clock says ${new Date(at).toISOString()}`,
      "set it: days and budget windows follow it",
    );
  }
  if (gatewayAt === null) return ok("clock", `${new Date(at).toISOString()}; there is nothing to compare it with`);
  const skewMs = at - gatewayAt;
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  if (Math.abs(skewMs) <= clockSkewMsMax) return ok("clock", `within ${Math.max(seconds, 1)} s of the gateway's`);
  const way = skewMs > 0 ? "ahead of" : "behind";
  return warning(
    "clock",
    `${seconds} s ${way} the gateway's`,
    "set it by NTP (timedatectl set-ntp true): days and budget windows follow it",
  );
}

/** Checks the loaded prices: the age of their last review, and models without a price. */
export function judgePrices(catalogue: Catalogue, now: number): Check {
  const models = catalogue.list(now);
  const unpriced = models.filter(({ price }) => price === null).map(({ id }) => id);
  const { reviewed_on, age_days, review_due } = newestReview(catalogue, now);
  if (reviewed_on === null)
    return warning(
      "prices",
      `${models.length} models, none with a price in force`,
      "add price files (FAREBOX_PRICING)",
    );

  const without =
    unpriced.length === 0 ? "" : `; without a price, and refused under a hard budget: ${listed(unpriced)}`;
  const message = `${models.length} models, the newest review on ${reviewed_on}, ${age_days} ${age_days === 1 ? "day" : "days"} ago${without}`;
  if (!review_due) return ok("prices", message);
  return warning(
    "prices",
    message,
    "prices may have changed since: update farebox, or import a current table (farebox prices import)",
  );
}

/** Joins names into a list such as "a, b, c and 4 more". */
export function listed(names: readonly string[], max = 5): string {
  const shown = names.slice(0, max).join(", ");
  return names.length > max ? `${shown} and ${names.length - max} more` : shown;
}

/**
 * Age from which a pending hold is reported, in milliseconds. Such a hold belongs to a task or a very long stream, or was
 * left behind.
 */
export const holdAgeMsMax = 3_600_000;

export function judgePending(
  pending: { readonly count: number; readonly oldestAt: number | null },
  now: number,
  isServed: boolean,
): Check {
  const { count, oldestAt } = pending;
  if (count === 0 || oldestAt === null) return ok("holds", "none pending");
  if (isServed && now - oldestAt <= holdAgeMsMax) return ok("holds", `${count} pending, none older than an hour`);
  const message = `${count} pending, the oldest since ${new Date(oldestAt).toISOString()}`;
  if (!isServed) return warning("holds", `${message}, and no serve runs`, "the next serve posts them as assumed");
  return warning(
    "holds",
    message,
    "farebox charges --state pending lists them; a restart of serve posts the holds that are left over",
  );
}

/** Compares the number of workers with the number of cores. Returns no check for a single process. */
export function judgeWorkers(workers: number, cores: number): Check[] {
  const name = "workers";
  const message = `${workers} on ${cores} ${cores === 1 ? "core" : "cores"}`;
  if (workers === 1) return [];
  if (workers <= cores) return [ok(name, message)];
  return [
    warning(name, message, "workers beyond the cores wait for each other: FAREBOX_WORKERS=auto starts one for each"),
  ];
}

/**
 * Warns if the ledger's file has other names or is mounted without its folder. SQLite keeps the newest charges in a log that
 * is named after the path.
 */
export function judgeNames(path: string, links: number, isMounted: boolean): Check[] {
  const name = "ledger file";
  const checks: Check[] = [];
  if (links > 1) {
    checks.push(
      warning(
        name,
        `${path} has ${links} names (hard links)`,
        "remove the others: a ledger opened under another name lacks what its write-ahead log holds",
      ),
    );
  }
  if (isMounted) {
    checks.push(
      warning(
        name,
        `the volume holds only the file ${path}, not the write-ahead log next to it`,
        "mount its folder: charges in the log are lost with the container",
      ),
    );
  }
  return checks;
}

/** Largest normal size of the write-ahead log, in bytes. SQLite has stopped moving a larger one into the database. */
const walBytesMax = 256 * 1024 ** 2;

export function judgeWal(bytes: number): Check {
  const size = `${Math.ceil(bytes / 1024 ** 2)} MB`;
  if (bytes <= walBytesMax) return ok("write-ahead log", bytes === 0 ? "empty" : `at most ${size}`);
  return warning(
    "write-ahead log",
    size,
    "a long read keeps it from shrinking: end reports, backups or other programs that have the ledger open",
  );
}

const diskBytesLeast = 64 * 1024 ** 2;
const diskBytesLow = 1024 ** 3;

export function judgeDisk(freeBytes: number, folder: string): Check {
  const message = `${Math.floor(freeBytes / 1024 ** 2)} MB free for ${folder}`;
  if (freeBytes < diskBytesLeast)
    return failed("disk", message, "free some: without room the ledger cannot be written, and nothing is forwarded");
  if (freeBytes < diskBytesLow)
    return warning("disk", message, "free some soon, or prune old charges (farebox db prune)");
  return ok("disk", message);
}
