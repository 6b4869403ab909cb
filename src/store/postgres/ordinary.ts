import { assertNever } from "../../core/assert.ts";
import type { Command, ReplyTo } from "../commands.ts";
import { addSample, removeSamples } from "./account-samples.ts";
import { createAdmin, revokeAdmin } from "./admins.ts";
import { announce } from "./changes.ts";
import type { Statements } from "./connection.ts";
import { createKey, revokeKey, updateKey } from "./keys.ts";
import { putMessages, recordTry, removeMessages } from "./outbox.ts";
import { putCallback } from "./task-callbacks.ts";
import { createTeam, removeTeam, updateTeam } from "./teams.ts";
import { burstMarks } from "./stream-bursts.ts";
import { writtenFor } from "./written-limits.ts";

const announced = ["createKey", "updateKey", "revokeKey", "createTeam", "updateTeam", "removeTeam"] as const;
const quiet = [
  "createAdmin",
  "revokeAdmin",
  "addSample",
  "removeSamples",
  "putMessages",
  "triedMessage",
  "removeMessages",
  "putCallback",
  "written",
  "streams",
] as const;

/** Commands that touch no sum, each of them a short transaction. */
export type OrdinaryCommand = Extract<Command, readonly [(typeof announced | typeof quiet)[number], ...unknown[]]>;

export function isOrdinary(command: Command): command is OrdinaryCommand {
  return isAnnounced(command) || (quiet as readonly string[]).includes(command[0]);
}

/** Whether all who watch the database are to notice what the command does: others remember keys and teams. */
function isAnnounced(command: Command): boolean {
  return (announced as readonly string[]).includes(command[0]);
}

/** Does what the command says, in its transaction. `changed`: whether keys or teams were. */
export async function runOrdinary(
  db: Statements,
  command: OrdinaryCommand,
): Promise<{ readonly reply: ReplyTo<OrdinaryCommand>; readonly changed: boolean }> {
  const reply = await run(db, command);
  const changed = isAnnounced(command);
  if (changed) await announce(db);
  return { reply, changed };
}

function run(db: Statements, command: OrdinaryCommand): Promise<ReplyTo<OrdinaryCommand>> {
  switch (command[0]) {
    case "createKey":
      return createKey(db, command[1], command[2]);
    case "updateKey":
      return updateKey(db, command[1], command[2], command[3], command[4]);
    case "revokeKey":
      return revokeKey(db, command[1], command[2], command[3]);
    case "createTeam":
      return createTeam(db, command[1], command[2]);
    case "updateTeam":
      return updateTeam(db, command[1], command[2], { at: command[3], by: command[4] });
    case "removeTeam":
      return removeTeam(db, command[1], { at: command[2], by: command[3] });
    case "createAdmin":
      return createAdmin(db, command[1], command[2]);
    case "revokeAdmin":
      return revokeAdmin(db, command[1], command[2], command[3]);
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
