import { closeSync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { invariant } from "../../core/assert.ts";
import { messageOf } from "../../core/fault.ts";
import { calendarOf } from "../../platform/clock.ts";
import type { Command } from "../commands.ts";
import type { LongQuery } from "../queries/interfaces.ts";
import { connectToRead, connectToWrite, createPrivateFile, isStorageFault, type Connection } from "./connection.ts";
import { lostFile, type OpenedFiles } from "./opened-files.ts";
import {
  packOutcomes,
  type CopyResult,
  type Lost,
  type ReaderMessage,
  type ThreadData,
  type WriterMessage,
} from "./threads.ts";

/*
 * Entry point of a running proxy's threads: the writer, the reader for long queries and the reader for figures.
 */

/** Interval at which the writer checks for changes by other processes, in milliseconds. */
const watchEveryMs = 250;
/** Interval at which the reader moves the write-ahead log into the database, in milliseconds. */
const checkpointEveryMs = 100;

/** Starts the writer. Returns a function that stops it. */
async function startWriter(port: MessagePort, data: ThreadData): Promise<() => void> {
  const { Writer } = await import("./writer.ts");
  const db = connectToWrite(data.path, data.opened);
  const writer = new Writer(db, calendarOf(data.timeZone), data.owner, data);
  const send = (message: WriterMessage) => port.postMessage(message);
  const checkChanges = changeWatcher(db, data.changes, () => send({ kind: "changed" }));
  const checkFiles = fileWatcher(data.opened, (lost) => send({ kind: "lost", lost }));
  const watch = setInterval(() => {
    checkChanges();
    checkFiles();
  }, watchEveryMs);
  port.on("message", (message: readonly Command[] | string) => {
    if (message === "close") return;
    if (typeof message === "string") return send(copyInto(db, message));
    const result = writer.apply(message);
    send({ ...result, kind: "applied", outcomes: packOutcomes(result.outcomes) });
  });
  return () => {
    clearInterval(watch);
    db.close();
  };
}

/**
 * Returns a function that reports changes by other processes. The function reads the counter of changes only if the
 * data version has changed, because the data version is cheaper to read. `lastChanges`: counter when the store was
 * opened, so that changes during the start of this thread are reported too.
 */
function changeWatcher(db: Connection, lastChanges: number, onChange: () => void): () => void {
  const dataVersion = db.prepare("pragma data_version").pluck();
  const changes = db.prepare("select changes from meta").pluck();
  let lastVersion: unknown = null;
  return () => {
    try {
      const version = dataVersion.get();
      if (version === lastVersion) return;
      const count = Number(changes.get());
      lastVersion = version;
      if (count === lastChanges) return;
      lastChanges = count;
      onChange();
    } catch (error) {
      if (!isStorageFault(error)) throw error;
    }
  };
}

/**
 * Returns a function that reports a lost file once. It reports again only after all files were at their paths again.
 */
function fileWatcher(opened: OpenedFiles, onLost: (lost: Lost) => void): () => void {
  let isLost = false;
  return () => {
    const lost = lostFile(opened);
    if (lost !== undefined && !isLost) onLost({ reason: lost.message, hasCharges: lost.hasCharges });
    isLost = lost !== undefined;
  };
}

/**
 * Copies the ledger to a new file, durably. Works even if the ledger file was deleted while open. Returns the result.
 */
function copyInto(db: Connection, file: string): CopyResult {
  try {
    if (createPrivateFile(file) === "exists") throw new Error(`${file} already exists`);
    db.prepare("vacuum into ?").run(file);
    for (const path of [file, dirname(file)]) {
      const open = openSync(path, "r");
      fsyncSync(open);
      closeSync(open);
    }
    return { kind: "copied", copy: file };
  } catch (error) {
    return { kind: "not_copied", reason: messageOf(error) };
  }
}

/** Starts a reader. Returns a function that stops it. */
async function startReader(port: MessagePort, data: ThreadData): Promise<() => void> {
  const { longQueries } = await import("./queries.ts");
  const db = connectToRead(data.path, data.opened);
  const queries = longQueries(db, calendarOf(data.timeZone));
  const send = (message: ReaderMessage) => port.postMessage(message);
  port.on("message", async (message: LongQuery | "close") => {
    if (message === "close") return;
    const [name, ...args] = message;
    try {
      send({ ok: true, answer: await (queries[name] as (...all: unknown[]) => Promise<unknown>)(...args) });
    } catch (error) {
      send({ ok: false, message: messageOf(error) });
    }
  });
  return () => void db.close();
}

/** Starts to move the write-ahead log into the database. Returns a function that stops this. */
function startCheckpoints(data: ThreadData): () => void {
  const db = connectToWrite(data.path, data.opened);
  const timer = setInterval(checkpointer(db), checkpointEveryMs);
  return () => {
    clearInterval(timer);
    db.close();
  };
}

/**
 * Returns a function that checkpoints the write-ahead log. The reader's thread runs the function, so commits do not
 * wait for checkpoints.
 */
function checkpointer(db: Connection): () => void {
  const dataVersion = db.prepare("pragma data_version").pluck();
  let lastVersion: unknown = null;
  return () => {
    try {
      const version = dataVersion.get();
      if (version === lastVersion) return;
      lastVersion = version;
      db.pragma("wal_checkpoint(passive)");
    } catch (error) {
      if (!isStorageFault(error)) throw error;
    }
  };
}

invariant(parentPort !== null, "this file must run as the entry point of a thread");
const port = parentPort;
const data = workerData as ThreadData;
const closers: readonly (() => void)[] = await {
  write: async () => [await startWriter(port, data)],
  read: async () => [await startReader(port, data), startCheckpoints(data)],
  figures: async () => [await startReader(port, data)],
}[data.role]();
port.on("message", (message) => {
  if (message !== "close") return;
  for (const close of closers) close();
  port.close();
});
