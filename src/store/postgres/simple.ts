import { assertNever } from "../../core/assert.ts";
import type { Command, ReplyTo } from "../commands.ts";
import { stepsOf, type RunCommand } from "../tables/tables.ts";
import { addSample, removeSamples } from "./account-samples.ts";
import { answer } from "./answer.ts";
import { announce } from "./changes.ts";
import type { Statements } from "./connection.ts";
import { putMessages, recordTry, removeMessages } from "./outbox.ts";
import { putCallback } from "./task-callbacks.ts";
import { burstMarks } from "./stream-bursts.ts";
import { writtenFor } from "./written-limits.ts";

/** Commands that touch no sum, each of them a short transaction. */
export type SimpleCommand = Extract<
  Command,
  readonly [
    (
      | "addSample"
      | "removeSamples"
      | "putMessages"
      | "triedMessage"
      | "removeMessages"
      | "putCallback"
      | "written"
      | "streams"
      | "run"
    ),
    ...unknown[],
  ]
>;

/** Does what the command says, in its transaction. `changed`: whether other processes were told to read keys and teams again. */
export async function runSimple(
  db: Statements,
  command: SimpleCommand,
): Promise<{ readonly reply: ReplyTo<SimpleCommand>; readonly changed: boolean }> {
  if (command[0] !== "run") return { reply: await run(db, command), changed: false };
  const { steps, announces } = stepsOf(command);
  const reply = await answer(db, steps);
  if (announces) await announce(db);
  return { reply, changed: announces };
}

function run(db: Statements, command: Exclude<SimpleCommand, RunCommand>): Promise<ReplyTo<SimpleCommand>> {
  switch (command[0]) {
    case "addSample":
      return addSample(db, command[1]);
    case "removeSamples":
      return removeSamples(db, command[1]);
    case "putMessages":
      return putMessages(db, command[1]);
    case "triedMessage":
      return recordTry(db, command[1], command[2]);
    case "removeMessages":
      return removeMessages(db, command[1], command[2]);
    case "putCallback":
      return putCallback(db, command[1]);
    case "written":
      return writtenFor(db, command);
    case "streams":
      return burstMarks(db, command);
    default:
      return assertNever(command);
  }
}
