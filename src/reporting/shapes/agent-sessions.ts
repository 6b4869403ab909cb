import { z } from "zod";
import { count, next, text, textOrNull, time, timeOrNull, tokens, usd, type Shape } from "./fields.ts";

const requests = z.strictObject({ requests: count, cost_usd: usd });
export const cutRequests = requests.meta({
  description:
    "Requests whose stream the gateway or Farebox cut, with their cost before corrections. Agents send such a request again, each time at a price.",
});

const figures = {
  requests: count,
  tokens,
  cost_usd: usd,
  list_cost_usd: usd,
  unpriced_requests: count,
  cached_percent: z.number().nullable().meta({
    description:
      "Percentage of the prompts' tokens that were read from the cache, rounded down to 0.1; null without tokens.",
  }),
  cut: cutRequests,
};

const agentSchema = z.strictObject({
  agent: textOrNull.meta({ description: "The agent's id; null for the main agent." }),
  parent: textOrNull.meta({ description: "The agent that started it, if its requests name one." }),
  depth: count.meta({ description: "0 for the main agent. An agent follows its parent, at a depth one greater." }),
  first_at: time,
  last_at: time,
  total_usd: usd.meta({ description: "Cost of the agent and of all agents below it. `cost_usd` is its own cost." }),
  ...figures,
});
export type AgentJson = Shape<typeof agentSchema>;
export const agents = z.array(agentSchema);

/** A session of an agent such as Claude Code; not one of `farebox run`. */
export const agentSessionSchema = z.strictObject({
  id: text.meta({ description: "Value of the tag `agent_session`." }),
  keys: z.array(text).meta({ description: "Names of the keys that sent its requests." }),
  first_at: time.meta({ description: "Time of the first request." }),
  last_at: time.meta({ description: "Time of the last request." }),
  duration_seconds: count.meta({ description: "From the first request to the end of the last one that has ended." }),
  pending: z.strictObject({ requests: count, held_usd: usd }).meta({ description: "Requests that are not settled." }),
  ...figures,
  models: z.array(z.strictObject({ model: text, ...figures })).meta({ description: "The most expensive one first." }),
  agents: agents.meta({ description: "The agents of the session as a tree, in the order of their first requests." }),
});
export type AgentSessionJson = Shape<typeof agentSessionSchema>;

export const agentSessionListSchema = z.strictObject({
  since: time,
  until: time,
  sessions: z.array(agentSessionSchema),
  next,
  examined_to: timeOrNull.meta({
    description: "Time at which the search stopped; null if it covered the whole span or filled the page.",
  }),
});
