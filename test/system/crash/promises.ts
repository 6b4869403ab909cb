import type { Verification } from "../../../src/ports/ledger.ts";
import type { AtGateway, LedgerSnapshot, Row } from "./ledger-snapshot.ts";
import type { Sent } from "./load.ts";

/** End of a process. By SIGTERM, `inPeace` with enough time for every request in flight, `hurried` without. */
export type Death = "killed" | "hurried" | "inPeace";

export interface Aftermath {
  readonly death: Death;
  readonly sent: readonly Sent[];
  /** State after the next start; rows of this load only. */
  readonly file: LedgerSnapshot;
  readonly gateway: readonly AtGateway[];
  readonly verification: Verification;
  /** Limits whose change was acknowledged, by scope. */
  readonly limits: ReadonlyMap<string, bigint>;
}

/** Cost of a token at gpt-4o's output rate, in pico-USD. */
const token = 5_000_000n;

/** Returns a sentence for each broken promise. */
export function brokenPromises(aftermath: Aftermath): string[] {
  const byNumber = new Map<string, Row>();
  const found: string[] = [];
  for (const row of aftermath.file.rows) {
    if (row.number === null) continue;
    if (byNumber.has(row.number)) found.push(`${row.number} has two rows`);
    byNumber.set(row.number, row);
    // A known task stays pending across restarts.
    if (row.state === "pending" && row.task === null) found.push(`${row.number} is pending, and its owner is dead`);
  }
  for (const one of aftermath.sent) found.push(...brokenToClient(one, byNumber.get(one.number), aftermath.death));
  const received = new Map(aftermath.sent.map((one) => [one.number, one.received]));
  for (const one of aftermath.gateway)
    found.push(...brokenToGateway(one, byNumber.get(one.number), received.get(one.number)));
  return [...found, ...brokenSums(aftermath)];
}

function brokenToClient(one: Sent, row: Row | undefined, death: Death): string[] {
  const broken = (what: string) => [
    `${one.number} (${one.kind}, ${one.end}, status ${one.status}): ${what}; ${describe(row)}`,
  ];
  if (one.end === "open") return broken("its client still waits");
  if (one.status === 402 || one.status === 429) return row === undefined ? [] : broken("was refused, and has a row");
  if (one.end === "unanswered")
    return death === "inPeace" && row !== undefined ? broken("was taken in, and not answered") : [];
  if (row === undefined) return one.status === 503 ? [] : broken("was answered, and has no row");
  if (row.id !== one.id) return broken(`its client was told the id ${one.id}`);
  // A stream ends if the ledger does not extend its hold within two seconds, as on a very busy machine.
  const isStalled = row.reason === "ledger_unavailable";
  if (death === "inPeace" && one.end === "cut" && one.kind !== "trouble" && !isStalled)
    return broken("was cut although there was time");
  if (one.end !== "whole" || one.kind === "trouble") return [];
  if (one.kind === "task")
    return row.task === one.task
      ? []
      : broken(`its client was told the task ${one.task}, and the ledger knows ${row.task}`);
  if (row.source === "assumed" && row.reason === "crash" && death === "killed") {
    return one.cost === null || (row.cost ?? 0n) >= one.cost
      ? []
      : broken(`its client was told that it cost ${one.cost}`);
  }
  if (row.source !== "reported") return broken("was answered whole");
  if (one.cost !== null && row.cost !== one.cost) return broken(`its client was told that it cost ${one.cost}`);
  const usage = one.usage;
  if (usage === null) return broken("its client was told no usage");
  const agrees = row.prompt === BigInt(usage.prompt_tokens) && row.completion === BigInt(usage.completion_tokens);
  return agrees ? [] : broken(`its client was told ${usage.prompt_tokens} and ${usage.completion_tokens} tokens`);
}

function brokenToGateway({ number, bill }: AtGateway, row: Row | undefined, received = 0): string[] {
  if (row === undefined) return [`${number} reached the gateway, and has no row`];
  // The cost of a running task is not known yet.
  if (bill === null || (row.state === "pending" && row.task !== null)) return [];
  const booked = row.cost ?? 0n;
  // A cut stream is charged for what was delivered; the bill also has what the gateway wrote before it noticed the cut.
  const least = row.source === "partial" ? BigInt(received) * token : bill.cost;
  if (booked < least)
    return [`${number} was billed ${bill.cost}, and its client read ${received} tokens; ${describe(row)}`];
  return row.source === "reported" && booked !== bill.cost
    ? [`${number} was billed ${bill.cost}; ${describe(row)}`]
    : [];
}

function brokenSums({ file, verification, limits }: Aftermath): string[] {
  const found = verification.differences.map((difference) => `verify: ${JSON.stringify(difference)}`);
  for (const { budget, mode, limit, spent, held } of file.windows) {
    if (held !== 0n && held !== file.heldByTasks) found.push(`the window of ${budget} still holds ${held}`);
    if (mode === "hard" && spent + held > limit)
      found.push(`the window of ${budget} is over its limit: ${spent} of ${limit}`);
    const acknowledged = limits.get(budget);
    if (acknowledged !== undefined && limit < acknowledged)
      found.push(`the limit ${acknowledged} of ${budget} was acknowledged, and is ${limit}`);
  }
  return found;
}

function describe(row: Row | undefined): string {
  if (row === undefined) return "it has no row";
  return `its row is ${row.state}, ${row.source ?? "no source"}, ${row.reason ?? "no reason"}, cost ${row.cost}, hold ${row.hold}`;
}
