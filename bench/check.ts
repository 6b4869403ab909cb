import { Connection, chatRequest } from "./connection.ts";
import type { Target } from "./targets.ts";
import { plainTokens, type Workload } from "./workloads.ts";

export interface WholeAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
}

/**
 * Before anything is timed: the gateway's own answer is what it should be, and each proxy gives the same bytes, twice on
 * one connection; or, where it rewrites answers, the same text and usage. Notes the length of each one's body, which
 * every timed answer of it must have too.
 */
export async function checkAnswers(workload: Workload, targets: readonly Target[]): Promise<void> {
  const reference = await askTwice(
    workload,
    targets.find(({ name }) => name === "direct"),
  );
  checkReference(workload, reference);
  for (const target of targets) {
    const answer = target.name === "direct" ? reference : await askTwice(workload, target);
    if (!isSame(workload, target, answer, reference)) {
      throw new Error(
        `${workload.name}: ${target.name} answers otherwise than the gateway: ${answer.status} ${answer.body.toString().slice(0, 300)}`,
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

interface Told {
  readonly choices?: readonly {
    readonly message?: { readonly content?: string };
    readonly delta?: { readonly content?: string | null };
  }[];
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null;
}

/** Returns what an answer says: its text, its usage, and of a stream the number of its deltas and that it ended. */
export function meaningOf({ deltas }: Pick<Workload, "deltas">, body: Buffer): string {
  const text = body.toString();
  if (deltas === null) {
    const { choices, usage } = JSON.parse(text) as Told;
    return JSON.stringify([choices?.[0]?.message?.content, usage?.prompt_tokens, usage?.completion_tokens]);
  }
  const events = text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)) as Told);
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

async function askTwice(workload: Workload, target: Target | undefined): Promise<WholeAnswer> {
  if (target === undefined) throw new Error("there is no gateway to compare with");
  using connection = await Connection.open(target.port);
  const first = await ask(connection, workload, target);
  const second = await ask(connection, workload, target);
  if (target.passesBytes ? !first.body.equals(second.body) : first.body.length !== second.body.length)
    throw new Error(`${workload.name}: ${target.name} answers twice differently`);
  return first;
}

async function ask(connection: Connection, workload: Workload, target: Target): Promise<WholeAnswer> {
  const parts: Buffer[] = [];
  target.sent++;
  const { status, head } = await connection.send(chatRequest(target, workload.body), (bytes) => {
    parts.push(Buffer.from(bytes));
  });
  const contentType = /\r\ncontent-type: *([^\r]*)/i.exec(head)?.[1] ?? "";
  return { status, contentType, body: Buffer.concat(parts) };
}

/** Checks that the gateway's answer is as the workload describes it. */
export function checkReference(
  { name, deltas }: Pick<Workload, "name" | "deltas">,
  { status, contentType, body }: WholeAnswer,
): void {
  const expect = (holds: boolean, what: string) => {
    if (!holds) throw new Error(`${name}: the gateway's answer has not ${what}`);
  };
  expect(status === 200, `status 200 but ${status}`);
  if (deltas === null) {
    const answer = JSON.parse(body.toString()) as { usage?: { completion_tokens?: number } };
    expect(contentType.startsWith("application/json"), "the type of JSON");
    expect(answer.usage?.completion_tokens === plainTokens, `${plainTokens} tokens`);
    return;
  }
  const events = body.toString().split("\n\n");
  expect(contentType.startsWith("text/event-stream"), "the type of an event stream");
  expect(
    events.every((event, index) => event.startsWith("data: ") || index === events.length - 1),
    "events alone",
  );
  expect(events.filter((event) => event.includes('"delta":{"content":')).length === deltas, `${deltas} deltas`);
  expect(events.at(-3)?.includes(`"completion_tokens":${deltas}`) === true, "its usage in the last chunk");
  expect(events.at(-2) === "data: [DONE]" && events.at(-1) === "", "[DONE] at its end");
}

/** After everything: each request has its one row, posted by the gateway's own usage, and the sums agree. */
export async function checkBooks(workload: Workload, targets: readonly Target[]): Promise<void> {
  for (const target of targets) {
    const books = await target.books();
    if (books === null) continue;
    const { charges, posted, reported, pending, differences } = books;
    const whole = charges === target.sent && posted === target.sent && reported === target.sent;
    if (!whole || pending !== 0 || differences !== 0) {
      throw new Error(
        `${workload.name}: ${target.sent} requests were sent, and the ledger says ${JSON.stringify(books)}`,
      );
    }
  }
}
