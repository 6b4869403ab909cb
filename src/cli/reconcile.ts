import type { Uncertainty, Movement, Reconciliation, ReconcileResult } from "../core/reconciliation.ts";
import { takeSample } from "../jobs/take-sample.ts";
import { groupsExplaining, reconciliationJson, runReconciliation } from "../reporting/reconciliation.ts";
import type { ReconciliationJson } from "../reporting/shapes/figures.ts";
import { loadPrices } from "./price-files.ts";
import { readSpan } from "./arguments.ts";
import { command, json } from "./command.ts";
import { bold, note, printLine, commandFailure, type Io } from "./io.ts";
import { printFields, printRows, right } from "./table.ts";
import { gatewaySettings, ledgerSettings, priceSettings, type LedgerTools } from "./tools.ts";

export const commands = [
  command("reconcile", {
    options: {
      since: {
        value: "<when>",
        help: "start of the time span: 24h, 7d, 2026-11-20 (from its beginning) or an ISO instant",
        default: "30d",
      },
      until: {
        value: "<when>",
        help: "end of the time span, in the same formats (default: now, with a new sample)",
      },
      noSample: { help: "use only stored samples; do not ask the gateway for a new one" },
      json,
    },
    settings: [...gatewaySettings, ...ledgerSettings, ...priceSettings],
    examples: ["farebox reconcile --since 7d", "farebox reconcile --since 2026-11-01 --until 2026-12-01 --json"],
    run: async ({ settings: { gateway }, withLedger }, options) => {
      const isSampling =
        !options.noSample && options.until === undefined && gateway.address !== null && gateway.apiKey !== null;
      return await withLedger(isSampling ? "change" : "read", async (tools) => {
        const span = readSpan(tools, options);
        if (!span.ok) return span;
        if (isSampling) await sampleNow(tools);
        const until = options.until === undefined ? Number.MAX_SAFE_INTEGER : span.until;
        const result = await runReconciliation(tools, { since: span.since, until });
        if (!result.ok) return commandFailure(missingText(result.reason, isSampling));
        return { found: reconciliationJson(result.reconciliation, await explanations(tools, result.reconciliation)) };
      });
    },
    json: ({ found }) => found,
    print: (io, { found }) => print(io, found),
    code: ({ found }) => (found.ok ? 0 : 1),
  }),
];

/**
 * Returns the groups of the price files that could explain the difference. Returns none if ledger and gateway agree, or
 * if the files cannot be read.
 */
async function explanations({ io, prices, ledger, settings }: LedgerTools, found: Reconciliation) {
  if (found.agrees) return [];
  const loading = await loadPrices(prices, settings.pricing);
  if (loading.ok) return await groupsExplaining(ledger, loading.catalogue, found);
  note(io, `note: ${loading.faults[0] ?? ""}; the groups of the price files are not compared`);
  return [];
}

async function sampleNow({ io, fetchAccount, ledger, samples, clock, settings }: LedgerTools): Promise<void> {
  let problem = "";
  const taken = await takeSample({ ledger, samples, clock }, async () => {
    const fetched = await fetchAccount(settings, clock);
    if (!fetched.ok) problem = `: ${fetched.message}`;
    return fetched.ok ? fetched.record : undefined;
  });
  if (taken === undefined) note(io, `note: no new sample was taken${problem}; only the stored samples are compared`);
}

function missingText(reason: (ReconcileResult & { readonly ok: false })["reason"], isSampling: boolean): string {
  if (reason === "no_measure") {
    return "the account record states no balance in USD (equivalent_in_usd), so the value of its credits is unknown";
  }
  const how = isSampling
    ? "one was taken now"
    : "reconcile takes one if FAREBOX_GATEWAY_URL and FAREBOX_GATEWAY_API_KEY are set";
  return `this span has fewer than two samples of the account (${how}); farebox serve takes one a minute while there is traffic; run reconcile again after some requests`;
}

const uncertaintyText: Readonly<Record<Uncertainty["kind"], string>> = {
  pending: "requests that were running at the start or end",
  assumed: "assumed: the hold was charged after a crash, reset or timeout",
  partial: "partial: answers that were cut off",
  counted: "counted: the gateway reported no usage",
  in_doubt: "in doubt: charges that the gateway may bill differently",
  unpriced: "models without a price: not in the ledger's sum",
  rounding: "rounding of the account record",
};

const movementText: Readonly<Record<Movement["kind"], string>> = {
  top_up: "topped up",
  withdrawn: "credits taken out of the account",
  expired: "credits expired",
  frozen: "credits frozen, not billed yet",
  inactive: "credits that are not active",
  use_by_others: "used by others, while Farebox ran no request",
  refund: "refunded while Farebox ran no request",
  unexplained: "movement of the balance that no credit field explains",
};

const leftOutText: Readonly<Record<Reconciliation["leftOut"][number]["why"], string>> = {
  topped_up: "the account was topped up, and only its balance is known",
  counter_fell: "the used counter fell, for example because a pack of credits ended",
};

function print(io: Io, found: ReconciliationJson): void {
  const { uncertainty, movements } = found;
  const sign = (usd: string) => (usd.startsWith("-") ? usd : `+${usd}`);
  const percent = found.difference_percent === null ? "" : ` (${sign(found.difference_percent.toFixed(2))}%)`;
  printFields(io, [
    ["from", found.since],
    ["to", found.until],
    ["requests", found.requests],
    ["the ledger charged", `USD ${found.ledger_usd}`],
    ["of which in doubt", `USD ${found.cost_in_doubt_usd}`],
    ["the gateway billed", `USD ${found.gateway_usd} (${measureText(found.measure)})`],
    ["difference", `USD ${sign(found.difference_usd)}${percent}`],
    ["billed for each dollar", factorText(found.factor)],
    [
      "uncertainty",
      `USD ${signedUnlessZero("-", uncertainty.below_usd)} to ${uncertainty.above_usd === null ? "any amount" : signedUnlessZero("+", uncertainty.above_usd)}`,
    ],
  ]);
  if (io.isTTY) printLine(io, "");
  printRows(io, uncertainty.items, {
    uncertain: ({ kind }) => uncertaintyText[kind],
    "less by": right(({ below_usd }) => below_usd),
    "more by": right(({ above_usd }) => above_usd ?? "any"),
  });
  if (movements.length > 0) {
    if (io.isTTY) printLine(io, "");
    printRows(io, movements, {
      "not from Farebox requests": ({ kind }) => movementText[kind],
      USD: right(({ usd, estimate }) => `${estimate ? "about " : ""}${usd}`),
    });
  }
  for (const { group, fraction, instead_of, from, to } of found.explained_by) {
    note(
      io,
      `group ${group}: ${fraction} of the official price instead of ${instead_of} would explain the difference (between ${from} and ${to})`,
    );
  }
  for (const { since, until, why } of found.left_out) note(io, `left out: ${since} to ${until}: ${leftOutText[why]}`);
  if (io.isTTY) printLine(io, "");
  io.stdout.write(`${bold(io, verdict(found))}\n`);
}

/** Formats a factor with its bounds: "USD 1.0001, between 0.9998 and 1.0004". Returns null if there is no factor. */
function factorText(factor: ReconciliationJson["factor"]): string | null {
  if (factor === null) return null;
  const { value, from, to } = factor;
  const bounds =
    from === null && to === null
      ? "any"
      : from === null
        ? `at most ${to}`
        : to === null
          ? `at least ${from}`
          : `between ${from} and ${to}`;
  return `USD ${value}, ${bounds}`;
}

function measureText(measure: ReconciliationJson["measure"]): string {
  return measure === "equivalent_in_usd" ? "by its balance" : `by its counter ${measure}`;
}

function signedUnlessZero(sign: string, usd: string): string {
  return /[1-9]/.test(usd) ? sign + usd : usd;
}

/** Returns the verdict for a person. If ledger and gateway differ, the verdict names possible causes. */
function verdict({ ok, why, difference_usd, left_out, requests }: ReconciliationJson): string {
  const restriction = left_out.length === 0 ? "" : ", as far as it can be compared";
  if (ok && requests === 0) return `no request of Farebox ended in this span${restriction}`;
  if (ok)
    return why !== null
      ? `cannot tell if the gateway bills what the ledger says${restriction}, because the uncertainty exceeds 5% of the amount. ${why}`
      : `the gateway bills what the ledger says, within the uncertainty${restriction}`;
  const isLess = difference_usd.startsWith("-");
  const causes = isLess
    ? "a price cut, a minimum charge that the gateway does not apply, requests that the gateway did not count"
    : "a price increase, an unknown minimum charge, failed answers that were billed, other users of the account";
  return `the gateway billed USD ${difference_usd.replace("-", "")} ${isLess ? "less" : "more"} than the ledger says, beyond the uncertainty; possible causes: ${causes}`;
}
