import { outcomeOfStatus, type Outcome } from "../core/settlement.ts";
import { failureReason, type TaskFailure } from "../core/task-failures.ts";
import type { TaskRecord } from "../core/tasks.ts";
import { readRefusedCreation, readTaskRecord } from "../wire/task.ts";
import { failedCall } from "./gateway-failure.ts";
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
  return (
    (text === undefined ? undefined : refusalIn(text, billsServerErrors)) ?? {
      kind: "unknown",
      reason: "unreadable_answer",
    }
  );
}

/** Reasons that leave open whether the gateway made the task before it lost sight of it. */
const openReasons: ReadonlySet<TaskFailure> = new Set(["network", "upstream_timeout", "time_limit"]);

/** How a refusal inside an answer of success ends the charge; undefined for an answer that is none. */
function refusalIn(text: Buffer, billsServerErrors: boolean): Outcome | undefined {
  const refused = readRefusedCreation(text);
  if (refused === undefined) return undefined;
  const { code, texts } = refused;
  if (code !== null && code >= 400 && code <= 599) return outcomeOfStatus(code, billsServerErrors);
  const reason = failureReason(texts);
  const words = reason === "other" ? `gateway_${code ?? "refused"}` : reason;
  return openReasons.has(reason)
    ? { kind: "unknown", reason: words }
    : { kind: "refusedByGateway", status: code ?? 200, reason: words };
}

function outcomeOfFailure({ failure, sent }: Extract<Sent, { ok: false }>): Outcome {
  const { ending } = failedCall(failure, sent);
  return ending.kind === "status" ? outcomeOfStatus(ending.status, false) : ending;
}
