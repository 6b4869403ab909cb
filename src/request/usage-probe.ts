import { LRUCache } from "lru-cache";
import type { Clock } from "../ports/clock.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Log } from "../ports/log.ts";
import { mayRefuseStreamUsage, readFirst, refusesStreamUsage, type FirstMeaning } from "../wire/usage-refusal.ts";
import type { BeginningRules } from "./beginning.ts";
import type { ResponseEnding, UsageRefused } from "./response.ts";

/** Time for which a model is not asked for stream usage after the gateway refused it, in milliseconds. */
const refusedMs = 3_600_000;
/**
 * Time for which a model is not probed again after a probe, in milliseconds. Otherwise, Farebox would double the
 * requests during an outage.
 */
const probedMs = 600_000;
/** Longest time after sending in which an error may be a refusal of usage, in milliseconds. */
const refusalMsMax = 2_000;
/** Largest number of stored models. The oldest is removed first. */
const modelsMax = 1000;
/** Longest name that is stored, in UTF-16 units. Prevents long names from filling the memory. */
const nameUnitsMax = 256;

/** Results of this process's earlier requests for stream usage, by route and model. */
export interface UsageRefusals {
  /** Returns true if the gateway refused a request with usage within the last hour, and accepted it without. */
  has(route: string, model: string): boolean;
  add(route: string, model: string): void;
  /** Records that the gateway answered a stream with usage. Its later errors have another cause. */
  accept(route: string, model: string): void;
  isAccepted(route: string, model: string): boolean;
  /** Returns true if an error may be a refusal of usage, and no probe of the model is running or has failed lately. */
  mayProbe(route: string, model: string): boolean;
  /** Reserves the only probe of a model. Returns false if it must not be probed. */
  beginProbe(route: string, model: string): boolean;
  /** Ends a probe that did not show a refusal of usage. `isFailed`: false if the client left before its end. */
  endProbe(route: string, model: string, isFailed: boolean): void;
}

export function createUsageRefusals(clock: Clock): UsageRefusals {
  const models = (ttl: number) =>
    new LRUCache<string, true>({
      max: modelsMax,
      ttl,
      ttlResolution: 0,
      // lru-cache treats the time 0 as missing.
      perf: { now: () => clock.monotonic() + 1 },
    });
  const refused = models(refusedMs);
  const probed = models(probedMs);
  const accepted = new LRUCache<string, true>({ max: modelsMax });
  const keyOf = (route: string, model: string) => `${route} ${model}`;
  const isAccepted = (route: string, model: string) => accepted.get(keyOf(route, model)) === true;
  const mayProbe = (route: string, model: string) =>
    model.length <= nameUnitsMax && !isAccepted(route, model) && !probed.has(keyOf(route, model));
  return {
    has: (route, model) => refused.has(keyOf(route, model)),
    add(route, model) {
      if (model.length <= nameUnitsMax) refused.set(keyOf(route, model), true);
      probed.delete(keyOf(route, model));
    },
    accept(route, model) {
      if (model.length <= nameUnitsMax && !isAccepted(route, model)) accepted.set(keyOf(route, model), true);
    },
    isAccepted,
    mayProbe,
    beginProbe(route, model) {
      if (!mayProbe(route, model)) return false;
      probed.set(keyOf(route, model), true);
      return true;
    },
    endProbe(route, model, isFailed) {
      if (isFailed) probed.set(keyOf(route, model), true);
      else probed.delete(keyOf(route, model));
    },
  };
}

interface ProbeDeps {
  readonly usageRefusals: UsageRefusals;
  readonly clock: Clock;
  readonly log: Log;
}

interface ProbedRequest {
  readonly id: string;
  readonly route: string;
  readonly model: string;
  readonly billsServerErrors: boolean;
  readonly exchange: Exchange;
}

/**
 * Decides whether a stream is sent again without a request for usage, because the gateway may have refused it only
 * because of that request. A refusal that names the field is always followed by a second try. After any other error, a
 * second try is a probe. A model has one probe at a time, none for ten minutes after a failed probe, and none once the
 * gateway has answered one of its streams with usage.
 */
export class UsageProbe {
  readonly #deps: ProbeDeps;
  readonly #request: ProbedRequest;
  readonly #sentAt: number;
  #isProbe = false;
  #isRecorded = false;

  /** Created when the request is sent. */
  constructor(deps: ProbeDeps, request: ProbedRequest) {
    this.#deps = deps;
    this.#request = request;
    this.#sentAt = deps.clock.monotonic();
  }

  /** Returns the ending that leads to a second try; null if the client gets the answer. */
  refusal(status: number, answer: Buffer): UsageRefused | null {
    const isNamed = refusesStreamUsage(status, answer) && !this.#request.exchange.clientGone;
    if (!isNamed && !(mayRefuseStreamUsage(status) && this.#maySendAgain(status))) return null;
    return { kind: "usageRefused", otherwise: { kind: "status", status } };
  }

  /** Rules for the first try; undefined if the gateway has already answered a stream of the model with usage. */
  get first(): BeginningRules | undefined {
    const { usageRefusals: refusals } = this.#deps;
    const { route, model } = this.#request;
    if (refusals.isAccepted(route, model)) return undefined;
    return {
      heldMs: refusals.mayProbe(route, model) ? refusalMsMax : 0,
      judge: (first, { isHeld, isWhole }) => this.#judgeFirst(readFirst(first, isWhole), isHeld),
    };
  }

  #judgeFirst(meaning: FirstMeaning, isHeld: boolean): "pass" | "open" | UsageRefused {
    if (meaning.kind === "open") return "open";
    if (meaning.kind === "answer") this.#deps.usageRefusals.accept(this.#request.route, this.#request.model);
    if (meaning.kind !== "refusal" || !isHeld || !this.#maySendAgain(meaning.error.status)) return "pass";
    return { kind: "usageRefused", otherwise: { kind: "error", error: meaning.error } };
  }

  #maySendAgain(status: number | null): boolean {
    const { usageRefusals: refusals, clock } = this.#deps;
    const { route, model, billsServerErrors, exchange } = this.#request;
    const mayBeBilled = billsServerErrors && (status === null || status >= 500);
    if (exchange.clientGone || mayBeBilled || clock.monotonic() - this.#sentAt > refusalMsMax) return false;
    if (refusals.has(route, model)) return true;
    this.#isProbe = refusals.beginProbe(route, model);
    return this.#isProbe;
  }

  /**
   * Rules for the second try. Its first output shows that the gateway refuses usage, even before the answer ends.
   */
  readonly second: BeginningRules = {
    heldMs: 0,
    judge: (first) => {
      const { kind } = readFirst(first);
      if (kind === "answer") this.#recordRefusal();
      return kind === "open" ? "open" : "pass";
    },
  };

  /** Ends the second try. Called with null if the request ended before it. */
  end(ending: ResponseEnding | null): void {
    if (ending !== null && isAnswered(ending)) this.#recordRefusal();
    else if (this.#isProbe && !this.#isRecorded) {
      const { route, model, exchange } = this.#request;
      this.#deps.usageRefusals.endProbe(route, model, ending !== null && !exchange.clientGone);
    }
  }

  #recordRefusal(): void {
    if (this.#isRecorded) return;
    this.#isRecorded = true;
    const { usageRefusals, log } = this.#deps;
    usageRefusals.add(this.#request.route, this.#request.model);
    log.info(
      { request_id: this.#request.id },
      "the gateway refuses stream usage for this model; Farebox does not ask for it again for an hour",
    );
  }
}

/** Returns true if the gateway answered a request, at least in part. */
export function isAnswered(ending: ResponseEnding): boolean {
  if (ending.kind !== "cut") return ending.kind === "whole";
  return ending.usage !== undefined || ending.texts.length > 0 || ending.uncountable !== undefined;
}
