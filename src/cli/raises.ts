import { approveRaise, denyRaise, listRaiseRequests, type RaiseAsked } from "../admin/raise-requests.ts";
import { keyNames } from "../reporting/names.ts";
import { adminRaiseRequestJson, raiseRequestJson } from "../reporting/standing.ts";
import type { RaiseRequestJson } from "../reporting/shapes/budgets.ts";
import { command, json } from "./command.ts";
import { printLine, type Io } from "./io.ts";
import { fieldColumns, printRows, right } from "./table.ts";
import type { LedgerTools } from "./tools.ts";

async function decisionJson({ keys, clock }: LedgerTools, result: RaiseAsked) {
  return result.ok ? raiseRequestJson(result.request, await keyNames(keys), clock.now()) : result;
}

function printDecision(io: Io, { id, state, scope, period, approved_usd, approved_until }: RaiseRequestJson): void {
  const end = approved_until === null ? "without an end" : `until ${approved_until}`;
  const raised = approved_usd === null ? "" : `: ${scope} per ${period} is raised by USD ${approved_usd} ${end}`;
  printLine(io, `${state} ${id}${raised}`);
}

export const commands = [
  command("raises list", {
    summary: "list open raise requests, newest first, at most 200",
    options: { all: { help: "also list approved, denied and lapsed requests" }, json },
    ledger: "read",
    examples: ["farebox raises list", "farebox raises list --all --json"],
    run: async (tools, { all }) => {
      const [listed, nameOf] = await Promise.all([listRaiseRequests(tools, { isOpen: !all }), keyNames(tools.keys)]);
      const now = tools.clock.now();
      return { raises: listed.map((each) => adminRaiseRequestJson(each.request, each.spenders, nameOf, now)) };
    },
    print: (io, { raises }) =>
      printRows(io, raises, {
        ...fieldColumns("id", "state", "key", "scope", "subject", "period"),
        asks: right(({ amount_usd }) => amount_usd),
        spenders: right(({ spenders }) => String(spenders)),
        created: ({ created_at }) => created_at,
        why: ({ why }) => why,
      }),
  }),

  command("raises approve <id>", {
    summary: "approve a raise request; the raise applies to the current window",
    options: {
      amount: { value: "<usd>", help: "amount of the raise (default: the requested amount)" },
      until: {
        value: "<when>",
        help: "end of the raise: 3h from now, or an ISO instant (default: end of the window)",
      },
      json,
    },
    ledger: "change",
    examples: ["farebox raises approve raise_0123456789abcdef --amount 5 --until 3h"],
    run: async (tools, { amount, until }, id) => decisionJson(tools, await approveRaise(tools, id, { amount, until })),
    print: printDecision,
  }),

  command("raises deny <id>", {
    summary: "deny a raise request",
    options: { json },
    ledger: "change",
    examples: ["farebox raises deny raise_0123456789abcdef"],
    run: async (tools, _options, id) => decisionJson(tools, await denyRaise(tools, id)),
    print: printDecision,
  }),
];
