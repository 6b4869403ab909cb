import { Connection, chatRequest } from "./connection.ts";
import type { Target } from "./targets.ts";
import { plainTokens, type Workload } from "./workloads.ts";

interface WholeAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
}

/**
 * Checks the answers before the timing starts. The gateway's answer must match the workload. Each proxy must return the
 * gateway's bytes, or the same text and usage if the proxy rewrites answers. Two answers on one connection must agree. Stores
 * the length of each target's body in `answerBytes`, because timed answers must have the same length.
 */
export async function checkAnswers(workload: Workload, targets: readonly Target[]): Promise<void> {
  const reference = await fetchTwice(
    workload,
    targets.find(({ name }) => name === "direct"),
  );
  checkReference(workload, reference);
  for (const target of targets) {
    const answer = target.name === "direct" ? reference : await fetchTwice(workload, target);
    if (!isSame(workload, target, answer, reference)) {
      throw new Error(
        `${workload.name}: the answer of ${target.name} differs from the gateway's: ${answer.status} ${answer.body.toString().slice(0, 300)}`,
      );
    }
    target.answerBytes = answer.body.length;
  }
}

function isSame(workload: Workload, { passesBytes }: Target, answer: WholeAnswer, reference: WholeAnswer): boolean {
  if (answer.status !== reference.status) return false;
  if (passesBytes) return answer.contentType === reference.contentType && answer.body.equals(reference.body);
  return meaningOf(workload, answer.body) === meaningOf(workload, reference.body);
}

interface AnswerJson {
  readonly choices?: readonly {
    readonly message?: { readonly content?: string };
    readonly delta?: { readonly content?: string | null };
  }[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null;
}

/** Returns the text and usage of an answer. For a stream, also returns the number of deltas and whether it ends with [DONE]. */
export function meaningOf({ deltas }: Pick<Workload, "deltas">, body: Buffer): string {
  const text = body.toString();
  if (deltas === null) {
    const { choices, usage } = JSON.parse(text) as AnswerJson;
    return JSON.stringify([choices?.[0]?.message?.content, usage?.prompt_tokens, usage?.completion_tokens]);
  }
  const events = text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)) as AnswerJson);
  const parts = events.flatMap(({ choices }) => choices?.[0]?.delta?.content ?? []).filter((part) => part !== "");
  const usage = events.findLast((event) => event.usage != null)?.usage;
  return JSON.stringify([
    parts.join(""),
    parts.length,
    usage?.prompt_tokens,
    usage?.completion_tokens,
    text.trimEnd().endsWith("data: [DONE]"),
  ]);
}

/** Returns true if an answer has the length of the checked answer, within the target's tolerance. */
export function hasRightLength(
  { answerBytes, toleratedBytes }: Pick<Target, "answerBytes" | "toleratedBytes">,
  bytes: number,
  checked = answerBytes,
): boolean {
  return Math.abs(bytes - checked) <= toleratedBytes;
}

async function fetchTwice(workload: Workload, target: Target | undefined): Promise<WholeAnswer> {
  if (target === undefined) throw new Error('no target "direct" to compare with');
  using connection = await Connection.open(target.port);
  const first = await fetchOnce(connection, workload, target);
  const second = await fetchOnce(connection, workload, target);
  if (
    target.passesBytes
      ? !first.body.equals(second.body)
      : !hasRightLength(target, second.body.length, first.body.length)
  )
    throw new Error(`${workload.name}: two answers of ${target.name} differ`);
  return first;
}

async function fetchOnce(connection: Connection, workload: Workload, target: Target): Promise<WholeAnswer> {
  const parts: Buffer[] = [];
  target.sent++;
  const { status, head } = await connection.send(chatRequest(target, workload.body), (bytes) => {
    parts.push(Buffer.from(bytes));
  });
  const contentType = /\r\ncontent-type: *([^\r]*)/i.exec(head)?.[1] ?? "";
  return { status, contentType, body: Buffer.concat(parts) };
}

/** Checks that the gateway's answer matches the workload. */
export function checkReference(
  { name, deltas }: Pick<Workload, "name" | "deltas">,
  { status, contentType, body }: WholeAnswer,
): void {
  const expect = (isMet: boolean, what: string) => {
    if (!isMet) throw new Error(`${name}: the gateway's answer does not have ${what}`);
  };
  expect(status === 200, `status 200; its status is ${status}`);
  if (deltas === null) {
    const answer = JSON.parse(body.toString()) as { usage?: { completion_tokens?: number } };
    expect(contentType.startsWith("application/json"), "the content type application/json");
    expect(answer.usage?.completion_tokens === plainTokens, `${plainTokens} tokens`);
    return;
  }
  const events = body.toString().split("\n\n");
  expect(contentType.startsWith("text/event-stream"), "the content type text/event-stream");
  expect(
    events.every((event, index) => event.startsWith("data: ") || index === events.length - 1),
    "only data events",
  );
  expect(events.filter((event) => event.includes('"delta":{"content":')).length === deltas, `${deltas} deltas`);
  expect(events.at(-3)?.includes(`"completion_tokens":${deltas}`) === true, "its usage in the last chunk");
  expect(events.at(-2) === "data: [DONE]" && events.at(-1) === "", "[DONE] at its end");
}

/** Checks the ledgers after all rounds: each request has one row, posted as reported, and the sums agree. */
export async function checkLedgers(workload: Workload, targets: readonly Target[]): Promise<void> {
  for (const target of targets) {
    const ledger = await target.ledger();
    if (ledger === null) continue;
    const { charges, posted, reported, pending, differences } = ledger;
    const isComplete = charges === target.sent && posted === target.sent && reported === target.sent;
    if (!isComplete || pending !== 0 || differences !== 0) {
      throw new Error(
        `${workload.name}: ${target.sent} requests were sent, but the ledger has ${JSON.stringify(ledger)}`,
      );
    }
  }
}
