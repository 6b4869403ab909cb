import type { PicoUsd } from "../core/money.ts";
import type { StreamObservation } from "../core/slices.ts";
import type {
  BurstMarksResult,
  ChargeEnd,
  Charging,
  ExtendResult,
  HoldRequest,
  HoldResult,
  Posting,
  SettleResult,
  WrittenResult,
} from "../ports/ledger.ts";
import { holdCommand, postCommand, voidCommand } from "./commands.ts";
import type { CommandSink } from "./queue.ts";

/** Largest number of price ids to remember as written. */
const pricesKept = 10_000;

const unavailable = { ok: false, reason: "unavailable" } as const;

/** Sends a request's operations on its charge as commands to a writer, in this process or another. */
export class QueuedCharges implements Charging {
  readonly #commands: CommandSink;
  /** Durable prices. Their text need not be sent to the writer again. */
  readonly #pricesWritten = new Set<string>();

  constructor(commands: CommandSink) {
    this.#commands = commands;
  }

  async hold(request: HoldRequest): Promise<HoldResult> {
    const priceId = request.price?.id;
    const isWritten = priceId !== undefined && this.#pricesWritten.has(priceId);
    const answer = await this.#commands.submit(holdCommand(request, !isWritten));
    if (!answer.ok) return unavailable;
    if (answer.reply.ok && priceId !== undefined && !isWritten) {
      if (this.#pricesWritten.size >= pricesKept) this.#pricesWritten.clear();
      this.#pricesWritten.add(priceId);
    }
    return answer.reply;
  }

  async extend(id: string, amount: PicoUsd, atLeast: PicoUsd): Promise<ExtendResult> {
    const answer = await this.#commands.submit(["extend", id, amount, atLeast]);
    return answer.ok ? answer.reply : unavailable;
  }

  async writtenFor(idempotency: string, written: string | null, at: number): Promise<WrittenResult> {
    const answer = await this.#commands.submit(["written", idempotency, written, at]);
    return answer.ok ? answer.reply : unavailable;
  }

  async burstMarks(seen: StreamObservation | null, at: number): Promise<BurstMarksResult> {
    const answer = await this.#commands.submit(["streams", seen, at]);
    return answer.ok ? answer.reply : unavailable;
  }

  async post(id: string, posting: Posting, end: ChargeEnd): Promise<SettleResult> {
    const answer = await this.#commands.submit(postCommand(id, posting, end));
    return answer.ok ? answer.reply : unavailable;
  }

  async void(id: string, reason: string, end: ChargeEnd): Promise<SettleResult> {
    const answer = await this.#commands.submit(voidCommand(id, reason, end));
    return answer.ok ? answer.reply : unavailable;
  }
}
