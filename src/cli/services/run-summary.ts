import { completionTotal, promptTotal } from "../../core/usage.ts";
import type { RunSessionJson } from "../../reporting/shapes/figures.ts";

/** Formats the cost of a session for a person. */
export function sumLines(sums: RunSessionJson): string[] {
  const { id, key, models, agents, cut, pending, budget, unpriced_requests: unpriced } = sums;
  return [
    `farebox: session ${id} of ${key}: ${figures(sums)}`,
    ...(models.length > 1 ? models.map((each) => `  ${each.model}: ${figures(each)}`) : []),
    ...(models.length === 1 ? [`  model: ${models[0]?.model}`] : []),
    ...(agents.some(({ agent }) => agent !== null) ? agentLines(agents) : []),
    ...(cut.requests > 0
      ? [
          `  ${counted(cut.requests, "request")} whose stream was cut, for USD ${cut.cost_usd}; agents send such requests again`,
        ]
      : []),
    ...(unpriced > 0 ? [`  ${counted(unpriced, "request")} without a price`] : []),
    ...(pending.requests > 0
      ? [`  ${counted(pending.requests, "request")} not settled yet, with USD ${pending.held_usd} held`]
      : []),
    ...(budget === null ? [] : [`  USD ${budget.remaining_usd} of the budget of USD ${budget.limit_usd} remains`]),
  ];
}

/** Largest number of agents that the summary lists. */
const agentsShownMax = 30;

/** Formats the agents of a session, each below its parent, with the cost of its own requests. */
function agentLines(agents: RunSessionJson["agents"]): string[] {
  const lines = agents
    .slice(0, agentsShownMax)
    .map((each) => `${"  ".repeat(Math.min(each.depth, 8) + 1)}${agentName(each)}: ${figures(each)}`);
  const more = agents.length - lines.length;
  return more > 0 ? [...lines, `  and ${counted(more, "other agent")}`] : lines;
}

function agentName({ agent }: RunSessionJson["agents"][number]): string {
  return agent === null ? "main agent" : `agent ${agent}`;
}

function figures({
  requests,
  tokens,
  cost_usd: cost,
  estimated,
}: Pick<RunSessionJson, "requests" | "tokens" | "cost_usd"> & Partial<Pick<RunSessionJson, "estimated">>): string {
  const total = promptTotal(tokens) + completionTotal(tokens);
  const doubt =
    estimated === undefined || estimated.requests === 0
      ? ""
      : ` (USD ${estimated.cost_usd} of it estimated, in ${counted(estimated.requests, "request")})`;
  return `${counted(requests, "request")}, ${counted(total, "token")}, USD ${cost}${doubt}`;
}

function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
}
