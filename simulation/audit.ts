import type { Charge } from "../src/core/charge.ts";
import { costOf } from "../src/core/cost.ts";
import { completionTotal, noTokens, promptClasses, type Doubt, type TokenCounts } from "../src/core/usage.ts";
import { formatUsd, larger, noMoney, type PicoUsd } from "../src/core/money.ts";
import type { PinnedPrice, PriceVersion } from "../src/core/price.ts";
import { estimatedModels, familyCreation, modelOutputMax, picoUsdPerUnit } from "./prices.ts";
import type { SimulatedExchange } from "./client.ts";
import type { Generation } from "./generation.ts";

/** Everything that is known of one request at the end of a run. */
export interface Case {
  readonly exchange: SimulatedExchange;
  readonly charge: Charge | undefined;
  readonly price: PriceVersion | undefined;
  /** The price of another model that answered, where the proxy has read its name. */
  readonly servedPrice: PinnedPrice | undefined;
  /** Ids of the prices that were in force between its coming and its sending. */
  readonly pricesInForce: ReadonlySet<string>;
  /** The gateway's generations for it, in their order. */
  readonly generations: readonly Generation[];
  /** Units that the gateway bills for the task that it made; null where it made none. */
  readonly taskUnits: number | null;
  /** True if a task of this id is written down as this request's. */
  readonly isBound: (taskId: string) => boolean;
  /** True if any task is. */
  readonly isOfTask: boolean;
  /** True if a request went out on a connection. */
  readonly wasSent: boolean;
  /** True if the run of the proxy that took it crashed. */
  readonly crashed: boolean;
}

/** Refusals that come before anything is forwarded. */
const before = new Set([
  "budget_exceeded",
  "budget_held",
  "model_not_priced",
  "cost_not_bounded",
  "ledger_unavailable",
  "balance_floor",
  "invalid_api_key",
  "rate_limit_exceeded",
  "concurrency_limit",
  "invalid_json",
  "invalid_request",
  "model_not_allowed",
]);

/** Returns the faults in how one request was charged and answered. */
export function faultsOf(about: Case): string[] {
  return [
    ...chargeFaults(about),
    ...billFaults(about),
    ...maximumFaults(about),
    ...deliveredFaults(about),
    ...doubtFaults(about),
    ...taskFaults(about),
    ...clientFaults(about),
  ].map((fault) => `${about.exchange.id}: ${fault}`);
}

function chargeFaults({ charge, wasSent, crashed, exchange, pricesInForce }: Case): string[] {
  const faults: string[] = [];
  if (charge === undefined) return wasSent ? ["sent to the gateway without a charge"] : [];
  if (wasSent && charge.priceId !== null && !pricesInForce.has(charge.priceId))
    faults.push("its price was not in force when it came, nor when it was sent");
  if (charge.state === "pending") faults.push("its charge is still pending");
  if (charge.reason === "crash" && !crashed) faults.push("its hold was posted as after a crash, and nothing crashed");
  if (charge.state === "posted" && !wasSent && !crashed) faults.push(`posted ${charge.cost}, and never sent`);
  if (exchange.refusal !== null && before.has(exchange.refusal.code) && wasSent)
    faults.push(`refused with ${exchange.refusal.code}, and sent`);
  return faults;
}

/** The gateway bills no more than the ledger has, the stated exceptions aside. */
function billFaults({ charge, price, servedPrice, generations }: Case): string[] {
  const billed = generations.filter((generation) => generation.billed !== null);
  const last = billed.at(-1);
  if (last === undefined || charge === undefined) return [];
  if (charge.state === "voided") return [`voided (${charge.reason}), and billed by the gateway`];
  if (charge.priceId === null) return charge.cost === null ? [] : ["a cost without a price"];
  if (price === undefined) return ["its price is not in the ledger"];
  if (charge.cost === null || charge.hold === null) return ["no cost, and a price"];
  const cost = (tokens: TokenCounts | null): PicoUsd =>
    tokens === null ? noMoney : costAtMost(price, servedPrice, tokens);
  const whole = cost(last.billed);
  if (charge.source === "reported")
    return [
      ...reportedFaults(charge, last),
      ...(charge.cost === whole ? [] : [`the gateway billed ${whole}, and ${charge.cost} is posted as reported`]),
    ];
  const faults: string[] = [];
  if (charge.source === "counted" && !estimatedModels.has(charge.model) && charge.cost !== whole)
    faults.push(`the gateway billed ${whole}, and ${charge.cost} was counted`);
  // A stream that is cut costs what was delivered: what was under way is an exception that is stated.
  const due = last.stream ? cost(last.seen) : whole;
  const isCounted = charge.source === "counted" || charge.source === "partial";
  // What was counted is never below what was delivered; where nothing could be counted, the hold stands for it.
  const least = isCounted || due < charge.hold ? due : charge.hold;
  if (charge.cost < least)
    faults.push(
      `the gateway billed ${due}, and ${charge.cost} is posted as ${charge.source} (${charge.reason}) under ${charge.hold}`,
    );
  // What a stream wrote before its hold could grow is overage, and unknown output counts up to what the model can write.
  const bound = last.isUnknownRead
    ? cost({ ...noTokens, input: charge.delivered?.input ?? 0, output: modelOutputMax * last.choices })
    : whole;
  const mayPass = isCounted && (last.stream || last.isUnknownRead || servedPrice !== undefined);
  const most = mayPass && bound > charge.hold ? bound : charge.hold;
  if (charge.cost > most) faults.push(`${charge.cost} is posted as ${charge.source}, beyond the hold ${charge.hold}`);
  return faults;
}

/** Checks that a written output maximum is what its charge and headers say, and that an obeyed one keeps within the hold. */
function maximumFaults({ charge, exchange, generations }: Case): string[] {
  const last = generations.at(-1);
  if (charge?.basis == null || last === undefined) return [];
  const { by, outputCap, fitted } = charge.basis;
  const written = fitted ?? outputCap;
  const faults: string[] = [];
  if (written !== null && last.maximum !== written)
    faults.push(`its charge says a maximum of ${written}, and ${last.maximum} was sent`);
  const isOurs = exchange.head !== null && exchange.refusal === null && !exchange.clientGone;
  const stated = exchange.head?.headers.find(
    ([name]) => name === "x-farebox-fitted" || name === "x-farebox-output-cap",
  );
  if (isOurs && (stated?.[1] ?? null) !== (written === null ? null : String(written)))
    faults.push(`its header says ${stated?.join(": ")}, its charge ${written}`);
  const obeyed = last.manner.kind !== "answers" || last.manner.usage !== "beyond";
  const isHeldWhole = by !== "slice" && charge.servedPriceId === null && charge.source === "reported" && obeyed;
  if (isHeldWhole && (charge.cost ?? noMoney) > (charge.hold ?? noMoney))
    faults.push(`held for by ${by}, and ${charge.cost} is posted beyond ${charge.hold}`);
  return faults;
}

/** The larger of both costs, where another model answered. */
function costAtMost(price: PriceVersion, served: PinnedPrice | undefined, tokens: TokenCounts): PicoUsd {
  return larger(costOf(price, tokens).charged, served === undefined ? noMoney : costOf(served.version, tokens).charged);
}

/** Checks that an amount posted as reported has the tokens that the gateway bills, in whatever members it states them. */
function reportedFaults({ tokens }: Charge, { billed }: Generation): string[] {
  if (billed === null) return [];
  const differ = promptClasses
    .filter((name) => tokens[name] !== billed[name])
    .map((name) => `${tokens[name]} tokens of ${name} are posted, and ${billed[name]} were billed`);
  const [posted, completion] = [completionTotal(tokens), completionTotal(billed)];
  return posted === completion
    ? differ
    : [...differ, `${posted} tokens of output are posted, and ${completion} were billed`];
}

/** Posted is at least delivered: neither the amount nor what was counted is below what the proxy has read. */
function deliveredFaults({ charge, price, servedPrice, generations }: Case): string[] {
  if (
    charge?.state !== "posted" ||
    charge.kind !== "request" ||
    charge.source === "assumed" ||
    charge.source === "reported"
  )
    return [];
  const { delivered, cost } = charge;
  // An answer that could not be read was bounded by its bytes alone.
  if (delivered === null)
    return charge.reason === "unreadable_answer" ? [] : [`posted as ${charge.source}, and nothing is delivered`];
  const faults: string[] = [];
  const least = price === undefined ? null : costAtMost(price, servedPrice, { ...noTokens, ...delivered });
  if (least !== null && (cost ?? noMoney) < least)
    faults.push(`${delivered.output} tokens were delivered for ${least}, and ${cost} is posted as ${charge.source}`);
  const read = generations.at(-1)?.outputRead ?? 0;
  if (delivered.output < read)
    faults.push(`the proxy has read ${read} tokens of output, and ${delivered.output} are delivered`);
  return faults;
}

/** Doubts that an answer with a clear usage does not give. */
const ofAnswers: ReadonlySet<Doubt> = new Set([
  "unknown_output",
  "usage_contradicts",
  "usage_unknown_class",
  "time_based",
]);

/** Another model that answered, and output in members that the proxy does not know, is a doubt of its charge, and of no other. */
function doubtFaults({ charge, servedPrice, generations }: Case): string[] {
  const last = generations.at(-1);
  if (charge?.state !== "posted" || last === undefined || charge.source === "assumed") return [];
  if (charge.formula === "tokens" && charge.servedPriceId !== (servedPrice?.id ?? null))
    return [`${last.served} answered, and its row names another price of what answered`];
  if (charge.priceId !== null && charge.doubts.includes("served_model") !== last.isServedRead)
    return [`${last.served} answered, and its doubts are ${charge.doubts.join(", ")}`];
  const isStated = charge.doubts.includes("unknown_output");
  if (charge.source === "reported")
    return charge.doubts
      .filter((doubt) => ofAnswers.has(doubt))
      .map((doubt) => `posted as reported with the doubt ${doubt}`);
  if (last.isUnknownRead && !isStated) return ["it has unknown output, and no doubt says so"];
  if (last.isUnknownRead && charge.source !== "partial")
    return [`it has unknown output, and is posted as ${charge.source}`];
  const isReadable = charge.reason !== "unreadable_answer";
  return isStated && isReadable && !last.isUnknownRead ? ["unknown output is a doubt of it, and it has none"] : [];
}

/** Checks that a task costs what the gateway says that it used; where no one could learn that, the hold. */
function taskFaults({ exchange, charge, taskUnits, isBound, isOfTask }: Case): string[] {
  if (exchange.path !== "/api/v1/task" && exchange.path !== familyCreation) return [];
  const told =
    exchange.refusal === null && exchange.status === 200 ? /"task_id":"([^"]+)"/.exec(exchange.body)?.[1] : undefined;
  if (told !== undefined && !isBound(told)) return [`its client was told of ${told}, which is not written down`];
  if (isOfTask && charge?.reason === "crash") return ["its task is known, and a recovery ended it"];
  if (taskUnits === null || charge === undefined) return [];
  const used = BigInt(taskUnits) * picoUsdPerUnit;
  if (charge.state === "voided") return used > 0n ? [`voided (${charge.reason}), and the task cost ${used}`] : [];
  if (charge.cost === null) return charge.hold === null ? [] : ["no cost, and a hold"];
  if (charge.source === "reported")
    return charge.cost === used ? [] : [`the task cost ${used}, and ${charge.cost} is posted as reported`];
  return charge.cost >= used || charge.cost === charge.hold
    ? []
    : [`the task cost ${used}, and ${charge.cost} is posted as ${charge.source}`];
}

function clientFaults({ exchange, charge, generations, crashed }: Case): string[] {
  const { head, ended, body } = exchange;
  if (exchange.path !== "/v1/chat/completions") return [];
  if (!exchange.clientGone && ended === null) return ["never answered"];
  if (head === null || exchange.refusal !== null || exchange.clientGone) return [];
  const faults: string[] = [];
  const written = generations.at(-1)?.handed ?? "";
  const [own] =
    /(?:\n\n)?data: \{"error":\{"message":"[^"]*","type":"[^"]*","param":null,"code":"(?:gateway_stream_broken|budget_exceeded|ledger_unavailable)".*\n\n$/s.exec(
      body,
    ) ?? [""];
  const theirs = body.slice(0, body.length - own.length);
  if (exchange.isPassed && !written.startsWith(theirs))
    faults.push("the client got other bytes than the gateway wrote");
  const type = head.headers.find(([name]) => name.toLowerCase() === "content-type")?.[1];
  const isStream = type === "text/event-stream";
  const saysWhole = /"finish_reason":"stop"|\[DONE\]/.test(theirs);
  if (isStream && ended === "whole" && !saysWhole && own === "") faults.push("a cut stream looks whole to its client");
  if (!isStream && ended === "whole" && exchange.isPassed && theirs !== written)
    faults.push("the client has a part of the answer, and takes it for whole");
  const isReported = generations.at(-1)?.isReported ?? false;
  if (
    isStream &&
    charge?.state === "posted" &&
    !isReported &&
    ended === "whole" &&
    !saysWhole &&
    charge.source !== "partial" &&
    charge.source !== "assumed"
  ) {
    faults.push(`a cut stream is settled as ${charge.source}`);
  }
  const stated = head.headers.find(([name]) => name === "x-farebox-cost-usd")?.[1];
  if (
    stated !== undefined &&
    charge?.state === "posted" &&
    !crashed &&
    charge.cost !== null &&
    stated !== formatUsd(charge.cost)
  ) {
    faults.push(`its header says ${stated}, its charge ${formatUsd(charge.cost)}`);
  }
  return faults;
}
