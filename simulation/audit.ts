import type { Charge } from "../src/core/charge.ts";
import {
  completionTotal,
  noTokens,
  promptClasses,
  promptTotal,
  type Doubt,
  type TokenCounts,
} from "../src/core/usage.ts";
import { formatUsd, larger, noMoney, type PicoUsd } from "../src/core/money.ts";
import { estimatedModels, familyCreation, idOf, modelOutputMax, models, picoUsdPerUnit } from "./prices.ts";
import { isMessages } from "./gateway.ts";
import { costUnderTariff, type BilledRun, type Tariff, type Terms } from "./tariffs.ts";
import type { SimulatedExchange } from "./client.ts";
import type { Generation } from "./generation.ts";
import { MessageGeneration } from "./message-generation.ts";

/** Request with everything that is known about it at the end of a run. */
export interface AuditedRequest {
  readonly exchange: SimulatedExchange;
  readonly charge: Charge | undefined;
  /** True if the charge's price was in force between the request's arrival and its forwarding, or if it has none. */
  readonly wasInForce: boolean;
  readonly isPriceStored: boolean;
  /** Tariff of the charge's price; undefined for a task or without a price. */
  readonly tariff: Tariff | undefined;
  /** Price of another model that answered, if the proxy has read its name. */
  readonly served: { readonly priceId: string; readonly tariff: Tariff } | undefined;
  /** Returns the tariff of another model, by the same prices. */
  readonly tariffOf: (model: string) => Tariff;
  /** True if the key may use every model that the request names. */
  readonly isPermitted: boolean;
  /** Generations of the gateway for this request, in order. */
  readonly generations: readonly Generation[];
  /** Units that the gateway bills for the task of this request; null if the request created no task. */
  readonly taskUnits: number | null;
  /** Returns true if the task with this id is stored with this request's charge. */
  readonly isBound: (taskId: string) => boolean;
  /** True if a task is stored with this request's charge. */
  readonly isOfTask: boolean;
  /** True if the proxy sent the request to the gateway. */
  readonly wasSent: boolean;
  /** True if the run of the proxy that received the request crashed, or left the charge pending. */
  readonly crashed: boolean;
}

/** Codes of refusals before a request is forwarded. */
const refusedBeforeForwarding = new Set([
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
export function faultsOf(audited: AuditedRequest): string[] {
  return [
    ...chargeFaults(audited),
    ...modelFaults(audited),
    ...billFaults(audited),
    ...maximumFaults(audited),
    ...deliveredFaults(audited),
    ...doubtFaults(audited),
    ...messageFaults(audited),
    ...taskFaults(audited),
    ...clientFaults(audited),
  ].map((fault) => `${audited.exchange.id}: ${fault}`);
}

function chargeFaults({ charge, wasSent, crashed, exchange, wasInForce }: AuditedRequest): string[] {
  const faults: string[] = [];
  if (charge === undefined) return wasSent ? ["sent to the gateway without a charge"] : [];
  if (wasSent && !wasInForce) faults.push("its price was in force neither when it arrived nor when it was sent");
  if (charge.state === "pending") faults.push("its charge is still pending");
  if (charge.reason === "crash" && !crashed)
    faults.push("its hold was posted with the reason crash, but nothing crashed");
  if (charge.state === "posted" && !wasSent && !crashed) faults.push(`posted ${charge.cost}, but never sent`);
  if (exchange.refusal !== null && refusedBeforeForwarding.has(exchange.refusal.code) && wasSent)
    faults.push(`refused with ${exchange.refusal.code}, but sent`);
  return faults;
}

/** Checks that no spelling of a model's name avoids a list of models, or a budget for the model. */
function modelFaults({ charge, exchange, wasSent, isPermitted }: AuditedRequest): string[] {
  const named = exchange.modelsNamed;
  const faults: string[] = [];
  if (wasSent && !isPermitted) faults.push(`sent with ${named.join(", ")}, which its key may not use`);
  if (exchange.refusal?.code === "model_not_allowed" && isPermitted)
    faults.push(`refused with ${named.join(", ")}, which its key may use`);
  if (charge?.kind !== "request") return faults;
  const ids = named.map(idOf);
  if (charge.priceId === null && models.some((id) => id === ids[0])) faults.push(`${named[0]} has no price`);
  for (const model of charge.models)
    if (!ids.includes(model)) faults.push(`counts for ${model}, not for ${ids.join(", ")}`);
  return faults;
}

/** Checks that the gateway bills at most what the ledger posts. Comments below state the exceptions. */
function billFaults(audited: AuditedRequest): string[] {
  const { charge, tariff, served, isPriceStored, generations } = audited;
  const billed = generations.filter((generation) => generation.billed !== null);
  const last = billed.at(-1);
  if (last === undefined || charge === undefined) return [];
  if (charge.state === "voided") return [`voided (${charge.reason}), but billed by the gateway`];
  if (charge.priceId === null) return charge.cost === null ? [] : ["it has a cost, but no price"];
  if (!isPriceStored) return ["its price is not in the ledger"];
  if (tariff === undefined) return [];
  if (charge.cost === null || charge.hold === null) return ["it has a price, but no cost or hold"];
  const cost = (tokens: TokenCounts | null): PicoUsd =>
    tokens === null ? noMoney : costAtMost(audited, last.termsRead, oneRun(tokens));
  const whole = costAtMost(audited, last.terms, last.billedRuns);
  if (charge.source === "reported")
    return [
      ...reportedFaults(charge, last),
      ...(charge.cost === whole ? [] : [`the gateway billed ${whole}, but ${charge.cost} is posted as reported`]),
    ];
  const faults: string[] = [];
  // Only a usage says which tokens a cache held. Without one, all of the prompt costs as much as input.
  const unstated = (tokens: TokenCounts | null) => (last.isPromptRead ? tokens : withoutCache(tokens));
  const uncached = cost(unstated(last.countable));
  if (charge.source === "counted" && !estimatedModels.has(idOf(charge.model)) && charge.cost !== uncached)
    faults.push(`the gateway billed tokens worth ${uncached} without a cache, but ${charge.cost} was counted`);
  // A cut stream costs what was delivered. Output in flight is an exception: it is billed, but not charged.
  const due = lesser(cost(unstated(last.seen)), last.stream ? cost(last.seen) : whole);
  const isCounted = charge.source === "counted" || charge.source === "partial";
  // A counted cost covers what was delivered. Without a count, the charge may be limited to its hold.
  const least = isCounted || due < charge.hold ? due : charge.hold;
  if (charge.cost < least)
    faults.push(
      `the gateway billed ${due}, but ${charge.cost} is posted as ${charge.source} (${charge.reason}) with a hold of ${charge.hold}`,
    );
  // Output that a stream wrote before its hold could grow is overage. Unknown output counts up to the model's maximum, also
  // if a connection broke while the proxy did not read from it.
  const isUnknown = last.isUnknownRead || (last.mayBeUnread && charge.doubts.includes("unknown_output"));
  const bound = isUnknown
    ? cost({ ...noTokens, input: charge.delivered?.input ?? 0, output: modelOutputMax * last.choices })
    : larger(whole, uncached);
  const mayExceedHold = isCounted && (last.stream || isUnknown || served !== undefined);
  const most = mayExceedHold && bound > charge.hold ? bound : charge.hold;
  if (charge.cost > most) faults.push(`${charge.cost} is posted as ${charge.source}, above the hold ${charge.hold}`);
  return faults;
}

function withoutCache(tokens: TokenCounts | null): TokenCounts | null {
  return tokens && { ...tokens, input: promptTotal(tokens), cached_input: 0, cache_write: 0, cache_write_1h: 0 };
}

function lesser(one: PicoUsd, other: PicoUsd): PicoUsd {
  return one < other ? one : other;
}

function oneRun(tokens: TokenCounts): readonly BilledRun[] {
  return [{ tokens, model: null }];
}

/**
 * Checks that the gateway received the output maximum that the charge and the header state. If the gateway obeys the
 * maximum, a hold that is not a slice must cover the reported cost.
 */
function maximumFaults({ charge, exchange, generations }: AuditedRequest): string[] {
  const last = generations.at(-1);
  if (charge?.basis == null || last === undefined) return [];
  const { by, outputCap, fitted } = charge.basis;
  const written = fitted ?? outputCap;
  const faults: string[] = [];
  if (written !== null && last.maximum !== written)
    faults.push(`its charge has a maximum of ${written}, but ${last.maximum} was sent`);
  const isForwarded = exchange.head !== null && exchange.refusal === null && !exchange.clientGone;
  const stated = exchange.head?.headers.find(
    ([name]) => name === "x-farebox-fitted" || name === "x-farebox-output-cap",
  );
  if (isForwarded && (stated?.[1] ?? null) !== (written === null ? null : String(written)))
    faults.push(`its header says ${stated?.join(": ")}, but its charge says ${written}`);
  const isExcessive = last.behavior.kind === "answers" && last.behavior.usage === "excessive";
  const isObeyed = !isExcessive && !last.hasExtraRuns && last.isBounded;
  const isHeldWhole = by !== "slice" && charge.servedPriceId === null && charge.source === "reported" && isObeyed;
  if (isHeldWhole && (charge.cost ?? noMoney) > (charge.hold ?? noMoney))
    faults.push(`its hold of ${charge.hold} comes from ${by}, but ${charge.cost} is posted`);
  return faults;
}

/** Returns the cost; if another model answered, the larger of the costs of the two models. */
function costAtMost(
  { tariff, served, tariffOf }: Pick<AuditedRequest, "tariff" | "served" | "tariffOf">,
  terms: Terms,
  runs: readonly BilledRun[],
): PicoUsd {
  return [tariff, served?.tariff]
    .filter((each) => each !== undefined)
    .map((each) => costUnderTariff(each, runs, terms, tariffOf) as PicoUsd)
    .reduce(larger, noMoney);
}

/** Checks that a reported charge has the tokens that the gateway bills, in every vocabulary. */
function reportedFaults({ tokens }: Charge, { billed }: Generation): string[] {
  if (billed === null) return [];
  const differ = promptClasses
    .filter((name) => tokens[name] !== billed[name])
    .map((name) => `${tokens[name]} tokens of ${name} are posted, but ${billed[name]} were billed`);
  const [posted, completion] = [completionTotal(tokens), completionTotal(billed)];
  return posted === completion
    ? differ
    : [...differ, `${posted} output tokens are posted, but ${completion} were billed`];
}

/** Checks that the posted amount and the delivered tokens cover what the proxy has read. */
function deliveredFaults(audited: AuditedRequest): string[] {
  const { charge, tariff, generations } = audited;
  const last = generations.at(-1);
  if (
    charge?.state !== "posted" ||
    charge.kind !== "request" ||
    charge.source === "assumed" ||
    charge.source === "reported"
  )
    return [];
  const { delivered, cost } = charge;
  // An answer that could not be read is counted by its bytes.
  if (delivered === null)
    return charge.reason === "unreadable_answer" ? [] : [`posted as ${charge.source}, but nothing is delivered`];
  const faults: string[] = [];
  const tokens = { ...noTokens, ...delivered };
  // A usage may say that a cache held most of the prompt.
  const least =
    tariff === undefined || last === undefined || last.isPromptRead
      ? null
      : costAtMost(audited, last.termsRead, oneRun(tokens));
  if (least !== null && (cost ?? noMoney) < least)
    faults.push(`${delivered.output} tokens worth ${least} were delivered, but ${cost} is posted as ${charge.source}`);
  const read = last?.outputRead ?? 0;
  if (delivered.output < read)
    faults.push(`the proxy has read ${read} output tokens, but ${delivered.output} are delivered`);
  return faults;
}

/** Doubts that an answer with a correct usage never causes. */
const answerDoubts: ReadonlySet<Doubt> = new Set([
  "unknown_output",
  "usage_contradicts",
  "usage_unknown_class",
  "time_based",
]);

/** Checks that a charge has the doubts `served_model` and `unknown_output` if and only if the proxy has read the cause. */
function doubtFaults({ charge, served, generations }: AuditedRequest): string[] {
  const last = generations.at(-1);
  if (charge?.state !== "posted" || last === undefined || charge.source === "assumed") return [];
  if (charge.formula === "tokens" && charge.servedPriceId !== (served?.priceId ?? null))
    return [`${last.served} answered, but its charge has another served price`];
  if (charge.priceId !== null && charge.doubts.includes("served_model") !== last.isServedRead)
    return [`${last.served} answered, but its doubts are ${charge.doubts.join(", ") || "none"}`];
  const isStated = charge.doubts.includes("unknown_output");
  if (charge.source === "reported")
    return charge.doubts
      .filter((doubt) => answerDoubts.has(doubt) && !(doubt === "usage_unknown_class" && lacksHour(last, charge)))
      .map((doubt) => `posted as reported with the doubt ${doubt}`);
  if (last.isUnknownRead && !isStated) return ["it has unknown output, but no such doubt"];
  if (last.isUnknownRead && charge.source !== "partial")
    return [`it has unknown output, but is posted as ${charge.source}`];
  const isKnown = charge.reason !== "unreadable_answer" && !last.isUnknownRead && !last.mayBeUnread;
  return isStated && isKnown ? ["it has the doubt unknown_output, but no such output"] : [];
}

/** True if a charge has one-hour cache writes, for which the price files state no rate. */
function lacksHour(last: Generation, { tokens }: Charge): boolean {
  return last instanceof MessageGeneration && !last.isBounded && tokens.cache_write_1h > 0;
}

/** Checks the rules that only messages have: free refusals, room for thinking, removed tools, and doubts. */
function messageFaults({ exchange, charge, generations, crashed }: AuditedRequest): string[] {
  const last = generations.at(-1);
  if (!(last instanceof MessageGeneration) || charge === undefined) return [];
  const faults: string[] = [];
  if (last.isRefusalRead && charge.state === "posted" && !crashed && !exchange.clientGone)
    faults.push(`the model refused before its output, but ${charge.cost} is posted as ${charge.source}`);
  const written = charge.basis?.fitted ?? charge.basis?.outputCap ?? null;
  if (written !== null && written <= (last.thinkingBudget ?? 0))
    faults.push(`a maximum of ${written} was sent, which leaves no room for ${last.thinkingBudget} tokens of thinking`);
  for (const [name, tag] of headerTags) {
    const value = exchange.header(name);
    if (charge.tags[tag] !== value) faults.push(`its tag ${tag} is ${charge.tags[tag]}, but its header says ${value}`);
  }
  const isRemoved = exchange.head?.headers.some(([name]) => name === "x-farebox-removed-tools") ?? false;
  if (isRemoved && last.hasSearch) faults.push("its header says that a tool was removed, but it was sent");
  if (charge.state !== "posted" || charge.priceId === null || charge.source === "assumed") return faults;
  const isReported = charge.source === "reported";
  if (isReported && last.isVariantUnknown && !charge.doubts.includes("service_tier"))
    faults.push("its speed or region has no price, but it has no such doubt");
  if (!isReported && last.termsRead.searches > 0 && !charge.doubts.includes("hosted_tool"))
    faults.push("it searched without stating the prompts of its runs, but it has no such doubt");
  return faults;
}

/** Headers of agents that become tags. */
const headerTags = [
  ["x-claude-code-session-id", "agent_session"],
  ["x-claude-code-agent-id", "agent"],
  ["x-claude-code-parent-agent-id", "parent_agent"],
] as const;

/** Checks that a task costs what the gateway reports, or its hold if the report never arrived. */
function taskFaults({ exchange, charge, taskUnits, isBound, isOfTask }: AuditedRequest): string[] {
  if (exchange.path !== "/api/v1/task" && exchange.path !== familyCreation) return [];
  const answered =
    exchange.refusal === null && exchange.status === 200 ? /"task_id":"([^"]+)"/.exec(exchange.body)?.[1] : undefined;
  if (answered !== undefined && !isBound(answered)) return [`its client received ${answered}, which is not stored`];
  if (isOfTask && charge?.reason === "crash") return ["its task is stored, but a recovery settled it"];
  if (taskUnits === null || charge === undefined) return [];
  const used = BigInt(taskUnits) * picoUsdPerUnit;
  if (charge.state === "voided") return used > 0n ? [`voided (${charge.reason}), but the task cost ${used}`] : [];
  if (charge.cost === null) return charge.hold === null ? [] : ["it has a hold, but no cost"];
  if (charge.source === "reported")
    return charge.cost === used ? [] : [`the task cost ${used}, but ${charge.cost} is posted as reported`];
  return charge.cost >= used || charge.cost === charge.hold
    ? []
    : [`the task cost ${used}, but ${charge.cost} is posted as ${charge.source}`];
}

function clientFaults({ exchange, charge, generations, crashed }: AuditedRequest): string[] {
  const { head, ended, body } = exchange;
  if (exchange.path !== "/v1/chat/completions" && !isMessages(exchange.path)) return [];
  if (!exchange.clientGone && ended === null) return ["it was never answered"];
  if (head === null || exchange.refusal !== null || exchange.clientGone) return [];
  const faults: string[] = [];
  const textRead = generations.at(-1)?.textRead ?? "";
  const [ownEvent] =
    /(?:\n\n)?event: error\ndata: \{"type":"error","error":\{"type":"[^"]*","message":"[^"]*","code":"(?:gateway_stream_broken|budget_exceeded|ledger_unavailable)".*\n\n$/s.exec(
      body,
    ) ??
      /(?:\n\n)?data: \{"error":\{"message":"[^"]*","type":"[^"]*","param":null,"code":"(?:gateway_stream_broken|budget_exceeded|ledger_unavailable)".*\n\n$/s.exec(
        body,
      ) ?? [""];
  const forwarded = body.slice(0, body.length - ownEvent.length);
  if (exchange.isPassed && !textRead.startsWith(forwarded)) faults.push("the client's bytes differ from the gateway's");
  const type = head.headers.find(([name]) => name.toLowerCase() === "content-type")?.[1];
  const isStream = type === "text/event-stream";
  const looksComplete = /"finish_reason":"stop"|\[DONE\]|"stop_reason":"|^event: error/m.test(forwarded);
  if (isStream && ended === "whole" && !looksComplete && ownEvent === "")
    faults.push("a cut stream looks complete to its client");
  if (!isStream && ended === "whole" && exchange.isPassed && forwarded !== textRead)
    faults.push("a part of the answer looks complete to its client");
  const isReported = generations.at(-1)?.isReported ?? false;
  if (
    isStream &&
    charge?.state === "posted" &&
    !isReported &&
    ended === "whole" &&
    !looksComplete &&
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
    faults.push(`its header says ${stated}, but its charge says ${formatUsd(charge.cost)}`);
  }
  return faults;
}
