import type { PicoUsd } from "../../core/money.ts";
import type { HoldResult, SettleResult } from "../../ports/ledger.ts";
import type { Outcome } from "../commands.ts";

/**
 * Outcomes as the writer's thread sends them. The frequent ones contain no objects, which cost five times as much to
 * clone.
 */
export type PackedOutcomes = readonly unknown[];

/** Tags before an outcome: any outcome unpacked; the room after a hold; cost and overage of a first posting. */
const [asItIs, held, posted] = [0, 1, 2] as const;

export function packOutcomes(outcomes: readonly Outcome[]): PackedOutcomes {
  const packed: unknown[] = [];
  for (const outcome of outcomes) {
    const reply = outcome.kind === "done" && typeof outcome.reply === "object" ? outcome.reply : null;
    if (reply !== null && isHeld(reply)) packed.push(held, reply.room);
    else if (reply !== null && isPosted(reply)) packed.push(posted, reply.cost, reply.overage);
    else packed.push(asItIs, outcome);
  }
  return packed;
}

export function unpackOutcomes(packed: PackedOutcomes): readonly Outcome[] {
  const outcomes: Outcome[] = [];
  for (let at = 0; at < packed.length;) {
    const kind = packed[at++];
    if (kind === held) {
      const room = packed[at++] as PicoUsd | null;
      outcomes.push({ kind: "done", reply: { ok: true, room } });
    } else if (kind === posted) {
      const cost = packed[at++] as PicoUsd | null;
      const overage = packed[at++] as PicoUsd;
      outcomes.push({ kind: "done", reply: { ok: true, first: true, state: "posted", cost, overage } });
    } else outcomes.push(packed[at++] as Outcome);
  }
  return outcomes;
}

function isHeld(reply: object): reply is Extract<HoldResult, { ok: true }> {
  return "room" in reply && "ok" in reply && reply.ok === true;
}

function isPosted(reply: object): reply is Extract<SettleResult, { ok: true }> {
  return "first" in reply && reply.first === true && "state" in reply && reply.state === "posted";
}
