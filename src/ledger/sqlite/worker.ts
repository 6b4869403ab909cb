import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { invariant } from "../../core/assert.ts";
import { calendarOf } from "../../platform/clock.ts";
import type { Command } from "../commands.ts";
import type { LongQuery } from "../queries/interfaces.ts";
import { connectToRead, connectToWrite, isStorageFault, type Connection } from "./connection.ts";
import { longQueries } from "./long-queries.ts";
import { lostFile, type OpenedFiles } from "./opened-files.ts";
import { packOutcomes } from "./packed-outcomes.ts";
import type { Lost, ReaderMessage, ThreadData, WriterMessage } from "./threads.ts";
import { Writer } from "./writer.ts";

/*
 * Entry point of a running proxy's threads: the one writer, the reader for long queries, and the reader for figures.
 */

/** Interval at which the writer checks for changes by other processes, in milliseconds. */
const watchEveryMs = 250;
/** Interval at which the reader moves the write-ahead log into the database, in milliseconds. */
const checkpointEveryMs = 100;

function write(port: MessagePort, data: ThreadData): () => void {
  const db = connectToWrite(data.path);
  const writer = new Writer(db, calendarOf(data.timeZone), data.owner, data.opened);
  const send = (message: WriterMessage) => port.postMessage(message);
  const lookForChanges = watcher(db, data.changes, () => send({ kind: "changed" }));
  const lookForFiles = fileWatcher(data.opened, (lost) => send({ kind: "lost", lost }));
  const watch = setInterval(() => {
    lookForChanges();
    lookForFiles();
  }, watchEveryMs);
  port.on("message", (message: readonly Command[] | "close") => {
    if (message === "close") return;
    const result = writer.apply(message);
    send({ ...result, kind: "applied", outcomes: packOutcomes(result.outcomes) });
  });
  return () => {
    clearInterval(watch);
    db.close();
  };
}

/**
 * Checks the cheap data version first, which changes with every commit of another connection. `lastChanges` is the
 * counter of changes when the store was opened, so that a change during the start of this thread is not missed.
 */
function watcher(db: Connection, lastChanges: number, onChange: () => void): () => void {
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

/** Reports a lost file once, and again after it was back. */
function fileWatcher(opened: OpenedFiles, onLost: (lost: Lost) => void): () => void {
  let isLost = false;
  return () => {
    const lost = lostFile(opened);
    if (lost !== undefined && !isLost) onLost({ reason: lost.message, holdsCharges: lost.holdsCharges });
    isLost = lost !== undefined;
  };
}

function read(port: MessagePort, data: ThreadData): () => void {
  const db = connectToRead(data.path);
  const queries = longQueries(db, calendarOf(data.timeZone));
  const send = (message: ReaderMessage) => port.postMessage(message);
  port.on("message", async (message: LongQuery | "close") => {
    if (message === "close") return;
    const [name, ...args] = message;
    try {
      send({ ok: true, answer: await (queries[name] as (...all: unknown[]) => Promise<unknown>)(...args) });
    } catch (error) {
      send({ ok: false, message: error instanceof Error ? error.message : String(error) });
    }
  });
  return () => void db.close();
}

function checkpoint(data: ThreadData): () => void {
  const helper = connectToWrite(data.path);
  const timer = setInterval(checkpointer(helper), checkpointEveryMs);
  return () => {
    clearInterval(timer);
    helper.close();
  };
}

/** Runs on the reader's thread, so that commits need not wait for it. */
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

invariant(parentPort !== null, "this file is the entry of a thread");
const port = parentPort;
const data = workerData as ThreadData;
const work: readonly (() => void)[] = {
  write: () => [write(port, data)],
  read: () => [read(port, data), checkpoint(data)],
  figures: () => [read(port, data)],
}[data.role]();
port.on("message", (message) => {
  if (message !== "close") return;
  for (const end of work) end();
  port.close();
});
