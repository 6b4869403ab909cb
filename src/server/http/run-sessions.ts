import { beginSession, newSessionSchema, type NewSession, type RunSessionTools } from "../../admin/run-sessions.ts";
import type { RunSession } from "../../core/keys.ts";
import type { Clock } from "../../ports/clock.ts";
import { type Exchange, notForwarded, refuse, type Handler, type Summary } from "../../ports/exchange.ts";
import type { Store } from "../../ports/stores.ts";
import { credentialOf, digestOfSecret, type Authenticate, type Keyring, withKey } from "../../request/authenticate.ts";
import { isoTime } from "../../core/time.ts";
import { sessionJson } from "../../reporting/run-session.ts";
import { readBody } from "./admin/read-input.ts";
import type { Route } from "./http-app.ts";
import { answerJson } from "./json.ts";

interface RunSessionDeps extends Pick<Store, "sessions" | "keys" | "figures"> {
  readonly authenticate: Authenticate;
  readonly keyring: Pick<Keyring, "sessionOf">;
  readonly clock: Clock;
}

const path = "/v1/farebox/sessions";
const bodyBytesMax = 64 * 1024;

/**
 * Returns the routes for sessions of `farebox run`. A key begins a session. The key or the session's credential can
 * show and end the session.
 */
export function runSessionRoutes(deps: RunSessionDeps): readonly Route[] {
  return [
    { method: "post", path, handler: begin(deps) },
    { method: "get", path: `${path}/:id`, handler: show(deps) },
    { method: "delete", path: `${path}/:id`, handler: end(deps) },
  ];
}

function begin({ authenticate, sessions, clock }: RunSessionDeps): Handler {
  return withKey(authenticate, null, async (exchange, { key, session }) => {
    if (session !== undefined) return refuse(exchange, needsKeyNotSession);
    if (key === null) return refuse(exchange, needsKey);
    const input = await readBody(exchange, newSessionSchema, bodyBytesMax);
    if (!input.ok) return input.refusal === null ? notForwarded : refuse(exchange, input.refusal);
    const tools: RunSessionTools = { sessions, clock };
    const secret = digestOfSecret(credentialOf(exchange) ?? "").toString("hex");
    const begun = await beginSession(tools, key, input.value as NewSession, { secret });
    if (!begun.ok) return refuse(exchange, { code: "conflict", message: `${begun.message}.` });
    const { id, expiresAt } = begun.session;
    const answer = { id, api_key: begun.credential, key: key.name, expires_at: isoTime(expiresAt) };
    return answerJson(exchange, answer, { status: 201 });
  });
}

function show(deps: RunSessionDeps): Handler {
  return ownSession(deps, (exchange, session) => answerSession(deps, exchange, session));
}

/** Ends a session once. A repeated request receives the same answer. */
function end(deps: RunSessionDeps): Handler {
  return ownSession(deps, async (exchange, session) => {
    const ended = (await deps.sessions.end(session.id, deps.clock.now())) ?? session;
    return answerSession(deps, exchange, ended);
  });
}

async function answerSession({ keys, figures, clock }: RunSessionDeps, exchange: Exchange, session: RunSession) {
  const name = (await keys.findById(session.key))?.name ?? session.key;
  return answerJson(exchange, await sessionJson(figures.ledger, session, name, clock.now()));
}

/**
 * Calls `handle` with the session that the path names, if the request has the session's key or credential. The
 * credential is accepted even after the session has ended.
 */
function ownSession(
  { authenticate, keyring, sessions }: RunSessionDeps,
  handle: (exchange: Exchange, session: RunSession) => Promise<Summary>,
): Handler {
  return async (exchange) => {
    const id = decodeURIComponent(exchange.path.slice(path.length + 1));
    const own = await keyring.sessionOf(credentialOf(exchange) ?? "");
    if (own?.id === id) return handle(exchange, own);
    const who = await authenticate(exchange);
    if (!who.ok) return refuse(exchange, who.refusal);
    const session = who.session === undefined && who.key !== null ? await sessions.find(id) : undefined;
    if (session === undefined || session.key !== who.key?.id)
      return refuse(exchange, {
        code: "not_found",
        message: `This key has no session '${id}'; ended sessions are kept until they expire.`,
      });
    return handle(exchange, session);
  };
}

const needsKeyNotSession = {
  code: "invalid_api_key",
  message: "A session cannot begin another session; send the key itself.",
} as const;

const needsKey = {
  code: "invalid_api_key",
  message: "A session belongs to a key; send the key as 'Authorization: Bearer sk-fb-…'.",
} as const;
