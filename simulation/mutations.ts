import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

/** Replacement of a text in one file of `src`. */
interface Edit {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const writer = "ledger/sqlite/writer.ts";

/** Bugs that a proxy with a ledger has had or could have. */
export const mutations: Readonly<Record<string, readonly Edit[]>> = {
  "a settlement without the check for pending": [
    {
      file: "ledger/sqlite/charges.ts",
      from: 'if (row.state !== "pending") return { ended: { state: row.state, cost: row.cost, overage: row.overage } };',
      to: "",
    },
    {
      file: "ledger/sqlite/charges.ts",
      from: "overage = ? where seq = ? and state = 'pending'`",
      to: "overage = ? where seq = ?`",
    },
    {
      file: "ledger/sqlite/charges.ts",
      from: "${assigned(endColumns.names)} where seq = ? and state = 'pending'`",
      to: "${assigned(endColumns.names)} where seq = ?`",
    },
  ],
  "a hold without the check for room": [
    {
      file: writer,
      from: "const shortage = amount === null || isOwed ? null : worstOf(windows, amount);",
      to: "const shortage = amount === null || isOwed ? null : worstOf([], amount);",
    },
  ],
  "a hold that forgets its session": [
    {
      file: writer,
      from: "const windows = this.#windows.open(caller, at);",
      to: "const windows = this.#windows.open({ ...caller, tags: {} }, at);",
    },
  ],
  "a hold that forgets its user": [
    {
      file: writer,
      from: "const windows = this.#windows.open(caller, at);",
      to: "const windows = this.#windows.open({ ...caller, user: null }, at);",
    },
  ],
  "a settlement that counts in the windows of every model it was held for": [
    {
      file: writer,
      from: "const counted = countedIn(found.pending, command);",
      to: "const counted = windows;",
    },
  ],
  "a check for room outside the transaction": [
    {
      file: writer,
      from: "const shortage = amount === null || isOwed ? null : worstOf(windows, amount);",
      to: "const shortage = amount === null || isOwed ? null : worstOf([], amount);",
    },
    {
      file: "ledger/queued-store.ts",
      from: "    async adjust(id,",
      to: `    async hold(request) {
    const needed = request.firstSlice ?? request.amount;
    for (const window of await short.windowsOf(request.caller, request.at)) {
      const isShort = needed !== null && window.budget.mode === "hard" && window.spent + window.held + needed > window.budget.limit;
      if (isShort) return { ok: false, reason: "no_room", shortage: { window, needed, exhausted: false } };
    }
    return QueuedCharges.prototype.hold.call(charging, request);
  },
    async adjust(id,`,
    },
  ],
  "a raise that does not end": [
    {
      file: "core/budget.ts",
      from: "from <= inside && (until === null || inside < until)",
      to: "from <= inside",
    },
  ],
  "an admission that ignores pending holds": [
    {
      file: "core/budget.ts",
      from: "if (window.spent + window.held + amount <= limit) return null;",
      to: "if (window.spent + amount <= limit) return null;",
    },
  ],
  "a hold that is not voided when its client has left": [
    {
      file: "request/pipeline.ts",
      from: 'if (ending.kind !== "task")',
      to: 'if (ending.kind !== "task" && (ending.kind !== "notSent" || ending.reason !== "client_left"))',
    },
  ],
  "an extension that replaces the hold": [
    {
      file: "ledger/sqlite/charges.ts",
      from: "const hold = (charge.hold + amount) as PicoUsd;",
      to: "const hold = amount;",
    },
  ],
  "a window that is not built from the charges when a budget is set": [
    {
      file: "ledger/sqlite/window-store.ts",
      from: 'if (step.budgets === "open") return this.#openAll(this.#intern(budget), step.at, step.before);',
      to: 'if (step.budgets === "open") return void (this.#intern(budget).completeFrom = 0);',
    },
  ],
  "a new budget without the charges posted after its sums were read": [
    {
      file: "ledger/queries/window-sums.ts",
      from: "const later = chargesBySubject(dialect, scope, subject, span, before);",
      to: 'const later = chargesBySubject(dialect, scope, subject, span, { upTo: Number.MAX_SAFE_INTEGER, pending: "[]" });',
    },
  ],
  "a recovery that voids instead of posting": [
    {
      file: writer,
      from: "this.#settle(orphanPost(id, unpriced === 1, at));",
      to: 'this.#settle(["void", id, [at, null, null, null, null, null, "crash"]]);',
    },
  ],
  "a hold below the cost of the maximum that is sent": [
    {
      file: "request/hold.ts",
      from: "plan = held.quote;",
      to: "plan = { ...held.quote, hold: ((held.quote.hold ?? 0n) / 2n) as PicoUsd };",
    },
  ],
  "a maximum that is held for but not sent": [
    {
      file: "request/metered-request.ts",
      from: "quote: held.quote, sender, stream, held, sent,",
      to: "quote: held.quote, sender, stream, held: { ...held, body: given.body }, sent,",
    },
  ],
  "a retry without stream usage that is settled as the first attempt": [
    {
      file: "request/metered-request.ts",
      from: "return { ...second, ending: second.ending, overheadMs: first.overheadMs };",
      to: "return { ...second, ending: ending.otherwise, overheadMs: first.overheadMs };",
    },
  ],
  "a marked model that is still held by slices": [
    {
      file: "request/metered-request.ts",
      from: "isMarked ? pricer.quote({ ...request, isHeldWhole: true }, at) : pricing",
      to: "isMarked && at < 0 ? pricer.quote({ ...request, isHeldWhole: true }, at) : pricing",
    },
  ],
  "a burst that goes unnoticed": [
    {
      file: "core/slices.ts",
      from: "if (this.isBurst || this.#windowBytes <= most * bytesPerToken) return false;",
      to: "if (this.isBurst || this.#windowBytes <= most * bytesPerToken * 1000) return false;",
    },
  ],
  "a settlement that is not retried": [
    {
      file: "ledger/queue.ts",
      from: 'if (outcome.kind === "unavailable" && mustBeWritten(waiting.command) && this.#closed === null) this.#retry(waiting);\n    else waiting',
      to: "waiting",
    },
  ],
  "a hold that is forgotten when its commit is unknown": [
    { file: "ledger/queue.ts", from: 'if (command[0] !== "hold" || this.#closed !== null) return;', to: "return;" },
  ],
  "a price that is remembered as written although its hold failed": [
    {
      file: "ledger/queue.ts",
      from: "if (answer.ok && answer.reply.ok) this.#remember(priceId);",
      to: "this.#remember(priceId);",
    },
  ],
  "a cut stream that is settled as complete": [
    {
      file: "request/streamed-response.ts",
      from: "if (answer.finished) {",
      to: "if (answer.finished || answer.texts.length > 0) {",
    },
  ],
  "a cut stream that costs nothing": [
    { file: "request/meter.ts", from: "deliveredTokens: tokens.output,", to: "deliveredTokens: 0," },
  ],
  "output in unknown members that is not counted": [
    {
      file: "request/meter.ts",
      from: "metered.model?.reasons === true ? unknownBytes : unknownBytes + Math.ceil((sealedBytes * 3) / 4)",
      to: "0 * (unknownBytes + sealedBytes)",
    },
  ],
  "output in unknown members without a doubt": [
    { file: "request/meter.ts", from: 'if (unknownTokens > 0) doubts.push("unknown_output");', to: "" },
  ],
  "a custom tool call whose input is not read": [
    {
      file: "wire/output-members.ts",
      from: "{ function: tool, custom: tool },",
      to: '{ function: tool, custom: "free" },',
    },
  ],
  "a counted cost that never exceeds the hold": [
    {
      file: "core/settlement.ts",
      from: "return exceedsHold(reserved, certain)",
      to: "return exceedsHold(reserved, certain) && false",
    },
  ],
  "cached tokens outside input_tokens that are ignored": [
    {
      file: "wire/usage.ts",
      from: "mergeCounts(mergeCounts(readOf(counts, Math.max(whole, kinds)), counts.hit), counts.cacheRead)",
      to: "mergeCounts(readOf(counts, Math.max(whole, kinds)), counts.hit)",
    },
  ],
  "input_tokens that count as the whole prompt": [
    { file: "wire/usage.ts", from: 'isPrompt ? "inside" : "outside",', to: '"inside",' },
  ],
  "an answer of another model that is charged at the requested model's price": [
    {
      file: "request/billed.ts",
      from: "return { servedPrice: served.price, answered, billing, doubts };",
      to: "return { servedPrice: null, answered, billing, doubts };",
    },
  ],
  "an answer of another model that is charged at its own price even if that is lower": [
    {
      file: "core/cost.ts",
      from: "return costOf(servedPrice, tokens, billing).charged > costOf(price, tokens, billing).charged ? servedPrice : price;",
      to: "return servedPrice;",
    },
  ],
  "runs of a model that are added up before their tier is chosen": [
    {
      file: "request/charged-usage.ts",
      from: "...(merged.runs && { billedRuns: merged.runs })",
      to: "...(merged.isRounded && { billedRuns: priced })",
    },
  ],
  "a stored charge that forgets the runs of its model": [
    {
      file: "ledger/commands.ts",
      from: "runs: billing?.runs === undefined ? null : formatRuns(billing.runs),",
      to: "runs: null,",
    },
  ],
  "a stream that is charged for the first model it names": [
    {
      file: "wire/model-answer.ts",
      from: "next.servedModel ?? before.servedModel;",
      to: "before.servedModel ?? next.servedModel;",
    },
  ],
  "a recovery that settles the holds of running tasks": [
    {
      file: writer,
      from: "and owner <> ? and not ${runsTask} limit ?",
      to: "and owner <> ? limit ?",
    },
  ],
  "a task that its client learns of before it is stored": [
    {
      file: "request/task-ownership.ts",
      from: "const claimed = await steps.claimTask(",
      to: 'const claimed = "bound" as Claimed;\n    void steps.claimTask(',
    },
  ],
  "a key that is remembered beyond its revocation": [
    { file: "request/authenticate.ts", from: "    generation++;\n    remembered.clear();", to: "    generation++;" },
  ],
  "a settlement that leaves its hold in the windows": [
    {
      file: writer,
      from: "this.#windows.addTo(counted, ended.cost ?? 0n, -(hold ?? 0n));",
      to: "this.#windows.addTo(counted, ended.cost ?? 0n, 0n);",
    },
  ],
  "an extension that applies to no window": [
    {
      file: writer,
      from: "if (pending.hold !== null) this.#windows.addTo(pending.windows, 0n, granted);",
      to: "",
    },
  ],
  "a window that begins with nothing spent": [
    {
      file: "ledger/sqlite/window-store.ts",
      from: "coalesce(sum(spent), 0), coalesce(sum(held)",
      to: "0, coalesce(sum(held)",
    },
  ],
  "a hold without the minimum of a group or the gateway": [
    { file: "core/bounds.ts", from: "return larger(worst, minimumWorst(price, bound, classes));", to: "return worst;" },
  ],
  "a marginal tier that begins one token late": [
    { file: "core/price.ts", from: "Math.max(fromPromptTokens - 1, 0)", to: "fromPromptTokens" },
  ],
  "a term for cached tokens that is ignored": [
    {
      file: "catalogue/rates.ts",
      from: "const term = terms.cacheTerms[name] ?? null;",
      to: "const term = null as Decided<string> | null;",
    },
  ],
  "a fraction that leaves the amounts of lower levels in force": [
    { file: "catalogue/levels.ts", from: "delete this.#cacheTerms[name];", to: ";" },
  ],
  "a change that is in force a day early": [
    {
      file: "catalogue/changes.ts",
      from: "start: from === undefined ? Number.NEGATIVE_INFINITY : instantOf(from),",
      to: "start: from === undefined ? Number.NEGATIVE_INFINITY : instantOf(from) - 86_400_000,",
    },
  ],
  "a pattern that precedes the change of an id": [
    {
      file: "catalogue/changes.ts",
      from: 'return isPattern ? models.replaceAll("*", "").length : Number.MAX_SAFE_INTEGER;',
      to: "return isPattern ? Number.MAX_SAFE_INTEGER : 0;",
    },
  ],
  "a shipped group that precedes the user's gateway": [
    {
      file: "catalogue/build.ts",
      from: "const groupsHere = ofGroup.filter((level) => Math.max(level.block.layer, assigned.layer) === layer);",
      to: "const groupsHere = layer === terms.layers - 1 ? ofGroup : [];",
    },
  ],
  "a spelling of a model's name that avoids the model's budget": [
    {
      file: "request/price.ts",
      from: "namesOneModel(given) ? [model?.id ?? request.model]",
      to: "namesOneModel(given) ? [request.model]",
    },
  ],
  "an invented provider that satisfies a list of models": [
    {
      file: "core/keys.ts",
      from: 'const names = pattern.includes("/") ? withProvider : withoutProvider;',
      to: "const names = [...withProvider, ...withoutProvider];",
    },
  ],
  "a list of models that refuses another spelling of a permitted model": [
    {
      file: "request/authenticate.ts",
      from: "mayUse(list, name, meant, isStated));",
      to: "mayUse(list, name, meant, isStated) && name === name.toLowerCase());",
    },
  ],
  "a spelling of a model's name that has no price": [
    {
      file: "catalogue/catalogue.ts",
      from: "const named = (text: string): ModelHistory | undefined => byName.get(text) ?? otherwise(text)?.entry;",
      to: "const named = (text: string): ModelHistory | undefined => byName.get(text);",
    },
  ],
  "an answer of another model that is charged at prices loaded after the admission": [
    {
      file: "request/price.ts",
      from: "      toolCalls,\n      catalogue,\n    };",
      to: "      toolCalls,\n      catalogue: { ...catalogue, named: (text: string, on: number) => this.#deps.catalogue().named(text, on) },\n    };",
    },
  ],
  "a task that is settled at the price in force, not at that of its hold": [
    {
      file: "request/task-tracker.ts",
      from: "const price = charge.priceId === null ? null : ((await ledger.price(charge.priceId)) ?? null);",
      to: "const price = this.#deps.catalogue().findTask(charge.model, null, charge.at)?.price?.version ?? null;",
    },
  ],
  "an estimate of a message's first event that is added to its counted output": [
    {
      file: "wire/endpoints/messages-answer.ts",
      from: "return { ...stated, soFar: { ...soFar, later: { texts: [] } } };",
      to: "return stated;",
    },
  ],
  "output of a message's first event that is added to that of its last one": [
    {
      file: "wire/endpoints/messages-answer.ts",
      from: "merged.set(name, known !== undefined && count !== undefined ? Math.max(known, count) : value);",
      to: 'merged.set(name, name === "output_tokens" && known !== undefined ? known + (countOf(value) ?? 0) : known !== undefined && count !== undefined ? Math.max(known, count) : value);',
    },
  ],
  "a message whose last usage replaces the prompt of the first one": [
    { file: "wire/endpoints/messages-answer.ts", from: "Math.max(known, count)", to: "count" },
  ],
  "a cut message that loses the prompt of its first event": [
    {
      file: "wire/endpoints/messages-answer.ts",
      from: 'this.#usage.add(readUsage(merged, "part"), this.#finished);',
      to: 'if (!isStart) this.#usage.add(readUsage(merged, "part"), this.#finished);',
    },
  ],
  "a refusal before output that is charged": [
    {
      file: "wire/endpoints/messages-answer.ts",
      from: "if (this.#isRefusedBeforeOutput)",
      to: "if (this.#isRefusedBeforeOutput && this.output.amount < 0)",
    },
  ],
  "one-hour cache writes that cost as much as short ones": [
    {
      file: "wire/usage.ts",
      from: "    cacheWrite: written5m,\n    cacheWrite1h: written1h,",
      to: "    cacheWrite: written5m + written1h,\n    cacheWrite1h: 0,",
    },
  ],
  "a hold that ignores the speed": [
    {
      file: "core/bounds.ts",
      from: "for (const speed of orStandard([terms.speed]))",
      to: "for (const speed of [null])",
    },
  ],
  "an answer at standard speed that is charged as a fast one": [
    {
      file: "request/billed.ts",
      from: 'speed: speed == null ? asked.speed : factorValueOf("speed", speed),',
      to: "speed: asked.speed,",
    },
  ],
  "searches without their fee": [
    {
      file: "request/billed.ts",
      from: "calls: Object.fromEntries(madeKinds.map((kind) => [kind, calls[kind] ?? 0]))",
      to: "calls: {}",
    },
  ],
  "a fitted maximum without room for thinking": [
    {
      file: "request/price.ts",
      from: "const least = Math.max(useful, (request.thinkingTokens ?? 0) + 1);",
      to: "const least = useful;",
    },
  ],
  "a run of an advisor at the price of the request": [
    {
      file: "request/charged-usage.ts",
      from: "promptTokens: promptTotal(tokens), price: runsPrice };",
      to: "promptTokens: promptTotal(tokens), price: null };",
    },
  ],
  "a removed tool that is still sent": [
    {
      file: "request/hosted-tools.ts",
      from: "const body = new BodyBytes([without.body]);",
      to: "const { body } = given;",
    },
  ],
  "an agent's session that is not a tag": [
    {
      file: "wire/headers.ts",
      from: "    all[tag] = value;\n",
      to: '    if (tag !== "agent_session") all[tag] = value;\n',
    },
  ],
};

/**
 * Plants a bug in all code that is loaded afterwards. Throws an error if the bug is unknown, or if a file does not contain a
 * quoted text exactly once.
 */
export function plant(name: string): void {
  const edits = Object.hasOwn(mutations, name) ? mutations[name] : undefined;
  if (edits === undefined)
    throw new Error(`unknown bug "${name}"; known bugs:\n  ${Object.keys(mutations).join("\n  ")}`);
  const sources = new Map<string, string>();
  for (const edit of edits) {
    const url = new URL(`../src/${edit.file}`, import.meta.url).href;
    sources.set(url, edited(name, edit, sources.get(url) ?? readFileSync(new URL(url), "utf8")));
  }
  registerHooks({
    load(url, context, nextLoad) {
      const source = sources.get(url);
      return source === undefined ? nextLoad(url, context) : { ...nextLoad(url, context), source };
    },
  });
}

function edited(name: string, edit: Edit, source: string): string {
  const [before, after, ...more] = source.split(edit.from);
  if (after === undefined || more.length > 0)
    throw new Error(`"${name}" quotes a text that is not in ${edit.file} exactly once; quote the current source`);
  return before + edit.to + after;
}
