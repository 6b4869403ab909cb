import { z } from "zod";
import { findKeyIfNamed } from "../../../admin/key-changes.ts";
import { failure } from "../../../admin/result.ts";
import { isoTime, isoTimeOrNull } from "../../../core/time.ts";
import type { Store } from "../../../ports/stores.ts";
import { agentSessionsJson } from "../../../reporting/agent-sessions.ts";
import { keyNamesIn } from "../../../reporting/names.ts";
import { agentSessionListSchema, agentSessionSchema } from "../../../reporting/shapes/agent-sessions.ts";
import { instant, limitOf, spanOf } from "./fields.ts";
import { found, routesFor, wrongCursor, type Timed } from "./route.ts";

const sessionQuery = z.strictObject({
  key: z.string().max(200).optional().meta({ description: "A key's name or id." }),
  since: instant.default("7d"),
  until: instant.default("0s"),
  limit: limitOf(50),
  cursor: z.string().max(1000).optional().meta({ description: "The `next` of the previous page." }),
});

/** Largest number of charges that one page examines. SQLite examines a hundred thousand in about 0.1 s. */
const chargesExaminedMax = 100_000;

const route = routesFor<Pick<Store, "ledger" | "keys"> & Timed>();

export const agentSessionRoutes = [
  route("GET /sessions", {
    role: "viewer",
    summary: "Sessions of agents with requests in a span, the one with the latest request first, in pages",
    query: sessionQuery,
    answer: agentSessionListSchema,
    handle: async (tools, { query }) => {
      const { ledger, keys } = tools;
      const read = spanOf(query, tools);
      if (!read.ok) return read;
      const named = await findKeyIfNamed(keys, query.key);
      if (!named.ok) return named;
      const asked = { since: read.since, until: read.until, key: named.key?.id };
      const page = await ledger.agentSessions({
        ...asked,
        limit: query.limit,
        examinedMax: chargesExaminedMax,
        after: query.cursor,
      });
      if (page === null) return wrongCursor("sessions");
      const sums = await ledger.agentSums({ ...asked, of: { sessions: page.ids } });
      return found({
        since: isoTime(asked.since),
        until: isoTime(asked.until),
        sessions: agentSessionsJson(page.ids, sums, await keyNamesIn(keys, sums)),
        next: page.next,
        examined_to: isoTimeOrNull(page.examinedTo),
      });
    },
  }),
  route("GET /sessions/{session}", {
    role: "viewer",
    summary: "One session of an agent, with all its requests",
    answer: agentSessionSchema,
    handle: async ({ ledger, keys }, { params: [id = ""] }) => {
      const sums = await ledger.agentSums({ of: { sessions: [id] } });
      const [session] = agentSessionsJson([id], sums, await keyNamesIn(keys, sums));
      return session === undefined
        ? failure("not_found", `there is no session ${id}: no request has this value of the tag agent_session`)
        : found(session);
    },
  }),
];
