import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

/** A text in the place of another, in one file of `src`. */
interface Edit {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const writer = "ledger/sqlite/writer.ts";

/** Bugs that a proxy of this kind has had, or could have. */
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
      from: "const refusal = refuse(windows, amount, bounded);",
      to: "const refusal = refuse([], amount, bounded);",
    },
  ],
  "a hold that forgets its session": [
    {
      file: writer,
      from: "const windows = this.#windows.open({ key, team, session }, at);",
      to: "const windows = this.#windows.open({ key, team, session: null }, at);",
    },
  ],
  "a check for room outside of the transaction": [
    {
      file: writer,
      from: "const refusal = refuse(windows, amount, bounded);",
      to: "const refusal = refuse([], amount, bounded);",
    },
    {
      file: "ledger/queued-store.ts",
      from: "    async adjust(id,",
      to: `    async hold(request) {
    const needed = request.firstSlice ?? request.amount;
    for (const window of await reads.windowsOf(request.caller, request.at)) {
      const isShort = needed !== null && window.budget.mode === "hard" && window.spent + window.held + needed > window.budget.limit;
      if (isShort) return { ok: false, reason: "no_room", shortage: { window, needed, exhausted: false } };
    }
    return QueuedCharges.prototype.hold.call(charging, request);
  },
    async adjust(id,`,
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
      from: 'if (ending.kind === "task") {',
      to: 'if (ending.kind === "task" || (ending.kind === "notSent" && ending.reason === "client_left")) {',
    },
  ],
  "an extension that forgets what is held": [
    {
      file: "ledger/sqlite/charges.ts",
      from: "const hold = (charge.hold + amount) as PicoUsd;",
      to: "const hold = amount;",
    },
  ],
  "a window that is not built from the charges when a budget is set": [
    {
      file: "ledger/sqlite/budgets.ts",
      from: 'if (step.budgets === "open") return this.#openAll(this.#known(budget), step.at);',
      to: 'if (step.budgets === "open") return;',
    },
  ],
  "a recovery that voids instead of posting": [
    {
      file: writer,
      from: "this.#settle(orphanPost(id, unpriced === 1, at));",
      to: 'this.#settle(["void", id, "crash", [at, null, null, null, null, null]]);',
    },
  ],
  "a hold for less than the maximum that is sent": [
    {
      file: "request/hold.ts",
      from: "params = { ...given, ...next, fitted: null };",
      to: "params = { ...given, ...next, quote: { ...next.quote, hold: ((next.quote.hold ?? 0n) / 2n) as PicoUsd }, fitted: null };",
    },
  ],
  "a maximum that is held for and not sent": [
    {
      file: "request/metered-request.ts",
      from: "return written === null ? given.sent : body;",
      to: "return written === null || body.length > 0 ? given.sent : body;",
    },
  ],
  "a second try without usage that is settled as the first": [
    {
      file: "request/metered-request.ts",
      from: "return { ...second, ending: second.ending, overheadMs: first.overheadMs };",
      to: 'return { ...second, ending: { kind: "status", status: ending.status }, overheadMs: first.overheadMs };',
    },
  ],
  "a model that is marked and keeps its slices": [
    {
      file: "request/metered-request.ts",
      from: "return isMarked ? pricer.quote({ ...request, isHeldWhole: true }, at) : pricing;",
      to: "return isMarked && at < 0 ? pricer.quote({ ...request, isHeldWhole: true }, at) : pricing;",
    },
  ],
  "a burst that goes unnoticed": [
    {
      file: "core/slices.ts",
      from: "if (this.isBurst || this.#inWindow <= most * bytesPerToken) return false;",
      to: "if (this.isBurst || this.#inWindow <= most * bytesPerToken * 1000) return false;",
    },
  ],
  "a settlement that is not tried again": [
    {
      file: "ledger/queue.ts",
      from: 'if (outcome.kind === "unavailable" && mustBeWritten(waiting.command) && this.#closed === null) this.#rest(waiting);\n    else waiting',
      to: "waiting",
    },
  ],
  "a hold whose commit is unknown is forgotten": [
    { file: "ledger/queue.ts", from: 'if (command[0] !== "hold" || this.#closed !== null) return;', to: "return;" },
  ],
  "a price that is taken for written when its hold was not": [
    {
      file: "ledger/queued-charges.ts",
      from: "if (!answer.ok) return unavailable;\n    if (answer.reply.ok && priceId",
      to: "if (!answer.ok) return (priceId !== undefined && this.#pricesWritten.add(priceId), unavailable);\n    if (answer.reply.ok && priceId",
    },
  ],
  "a cut stream that is settled as a whole one": [
    {
      file: "request/streamed-response.ts",
      from: "if (answer.finished) {",
      to: "if (answer.finished || answer.texts.length > 0) {",
    },
  ],
  "a stream that is cut costs nothing": [
    { file: "request/meter.ts", from: "deliveredTokens: tokens.output,", to: "deliveredTokens: 0," },
  ],
  "output in members that are not known counts as nothing": [
    {
      file: "request/meter.ts",
      from: "of.model?.reasons === true ? unknownBytes : unknownBytes + Math.ceil((sealedBytes * 3) / 4)",
      to: "0 * (unknownBytes + sealedBytes)",
    },
  ],
  "output in members that are not known is no doubt": [
    { file: "request/meter.ts", from: 'if (unknownTokens > 0) doubts.push("unknown_output");', to: "" },
  ],
  "a custom tool call whose input is not read": [
    {
      file: "wire/output-members.ts",
      from: "{ function: tool, custom: tool },",
      to: '{ function: tool, custom: "free" },',
    },
  ],
  "a count that stops at the hold": [
    {
      file: "core/settlement.ts",
      from: "return exceedsHold(reserved, written)",
      to: "return exceedsHold(reserved, written) && false",
    },
  ],
  "cached tokens outside input_tokens are ignored": [
    {
      file: "wire/usage.ts",
      from: "agreed(agreed(counts.cached, counts.hit), counts.cacheRead)",
      to: "agreed(counts.cached, counts.hit)",
    },
  ],
  "input_tokens that are taken for the whole prompt": [
    { file: "wire/usage.ts", from: 'isPrompt ? "inside" : "outside",', to: '"inside",' },
  ],
  "another model that answers is charged as the one that was asked for": [
    {
      file: "request/billed.ts",
      from: "return { servedPrice: served.price, billing, doubts };",
      to: "return { servedPrice: null, billing, doubts };",
    },
  ],
  "another model that answers is charged at its own price alone": [
    {
      file: "core/cost.ts",
      from: "return costOf(servedPrice, tokens, billing).charged > costOf(price, tokens, billing).charged ? servedPrice : price;",
      to: "return servedPrice;",
    },
  ],
  "the first model that a stream names is taken for the one that answers": [
    { file: "wire/chat-stream.ts", from: "servedModel ?? this.#servedModel;", to: "this.#servedModel ?? servedModel;" },
  ],
  "a recovery that ends the holds of running tasks": [
    {
      file: writer,
      from: "and owner <> ? and not ${runsTask} limit ?",
      to: "and owner <> ? limit ?",
    },
  ],
  "a task that its client hears of before it is written down": [
    {
      file: "request/task-creation.ts",
      from: "const bound = await bind(steps, exchange.id, covered, record);",
      to: "void bind(steps, exchange.id, covered, record);\n  const bound = { ok: true } as BindResult;",
    },
  ],
  "a key that is remembered beyond its revocation": [
    { file: "request/authenticate.ts", from: "    generation++;\n    remembered.clear();", to: "    generation++;" },
  ],
  "a settlement that leaves what was held in its windows": [
    {
      file: writer,
      from: "this.#windows.move(found.pending.windows, ended.cost ?? 0n, -(found.pending.hold ?? 0n));",
      to: "this.#windows.move(found.pending.windows, ended.cost ?? 0n, 0n);",
    },
  ],
  "an extension that applies to no window": [
    {
      file: writer,
      from: "if (pending.hold !== null) this.#windows.move(pending.windows, 0n, granted);",
      to: "",
    },
  ],
  "a window that begins with nothing spent": [
    {
      file: "ledger/sqlite/budgets.ts",
      from: "const sums = sumCharges(this.#db, budget.scope, subject, span);",
      to: "const sums = { spent: 0n as PicoUsd, held: sumCharges(this.#db, budget.scope, subject, span).held };",
    },
  ],
};

/** Plants one, in everything that is loaded from now on. Throws where there is no such bug, or a text is not once in its file. */
export function plant(name: string): void {
  const edits = Object.hasOwn(mutations, name) ? mutations[name] : undefined;
  if (edits === undefined) throw new Error(`no such bug; there are:\n  ${Object.keys(mutations).join("\n  ")}`);
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
    throw new Error(`the text of "${name}" must be in ${edit.file} exactly once; quote the source as it is now`);
  return before + edit.to + after;
}
