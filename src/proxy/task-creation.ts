import { outcomeOfStatus, type Outcome } from "../core/settlement.ts";
import type { TaskRecord } from "../core/tasks.ts";
import { envelopeCode, readTaskRecord } from "../wire/task.ts";
import type { Sent } from "./whole-calls.ts";

/** What came of the creation of a task: a task that runs at the gateway, or the end of its charge. */
export type Creation =
  | { readonly kind: "created"; readonly record: TaskRecord & { readonly taskId: string } }
  | Outcome;

/**
 * What the gateway's answer says became of the creation. Only an answer that names a task has made one; one that says what
 * is wrong with the request, by its status or by the code in its envelope, has made none; all else leaves it open.
 */
export function creationOf(sent: Sent, billsServerErrors: boolean): Creation {
  if (!sent.ok) return outcomeOfFailure(sent);
  const { head, text } = sent;
  if (head.status >= 300) return outcomeOfStatus(head.status, billsServerErrors);
  const record = text === undefined ? undefined : readTaskRecord(text);
  const taskId = record?.taskId ?? null;
  if (record !== undefined && taskId !== null) return { kind: "created", record: { ...record, taskId } };
  const code = text === undefined ? null : envelopeCode(text);
  if (code !== null && code >= 400 && code <= 599) return outcomeOfStatus(code, billsServerErrors);
  return { kind: "unknown", reason: "unreadable_answer" };
}

function outcomeOfFailure({ failure, sent }: Extract<Sent, { ok: false }>): Outcome {
  switch (failure.kind) {
    case "unreachable":
      return { kind: "notSent", reason: "gateway_unreachable" };
    case "redirect":
      return outcomeOfStatus(failure.status, false);
    case "too_large":
      return { kind: "unknown", reason: "unreadable_answer" };
    case "reset":
      return { kind: "unknown", reason: "gateway_reset" };
    case "silent":
      return sent ? { kind: "unknown", reason: "gateway_silent" } : { kind: "notSent", reason: "gateway_unreachable" };
    case "stopped":
      return { kind: sent ? "unknown" : "notSent", reason: failure.reason };
  }
}
