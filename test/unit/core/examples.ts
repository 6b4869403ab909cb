import type { LedgerTotals } from "../../../src/core/account.ts";
import type { RequestSize } from "../../../src/core/bounds.ts";
import { noMoney } from "../../../src/core/money.ts";
import type { StatedUsage } from "../../../src/core/usage.ts";

/** Usage that states no tokens. */
export const noUsage: StatedUsage = {
  prompt: 0,
  completion: undefined,
  total: undefined,
  cache: "parts",
  cached: 0,
  cacheWrite: 0,
  cacheWrite1h: 0,
  audioInput: 0,
  imageInput: 0,
  reasoning: 0,
  audioOutput: 0,
  imageOutput: 0,
  promptContradicts: false,
  completionContradicts: false,
};

export const noAmounts = { reported: noMoney, counted: noMoney, partial: noMoney, assumed: noMoney };

/** Returns the counters of a new ledger, with changes. */
export function ledgerTotals(changes: Partial<LedgerTotals> = {}): LedgerTotals {
  return {
    written: 0,
    posted: noAmounts,
    inDoubt: noAmounts,
    requests: 0,
    unpriced: 0,
    pending: 0,
    pendingUnpriced: 0,
    held: noMoney,
    ...changes,
  };
}

/** Returns the size of an empty request for one choice, with changes. */
export function requestSize(changes: Partial<RequestSize> = {}): RequestSize {
  return {
    textBytes: 0,
    messages: 0,
    tools: 0,
    imageParts: 0,
    audioParts: 0,
    fileParts: 0,
    choices: 1,
    outputMax: null,
    unboundedFields: [],
    ...changes,
  };
}
