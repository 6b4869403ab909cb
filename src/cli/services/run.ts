import { spawn } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { beginSession, type NewSession } from "../../admin/run-sessions.ts";
import { storeProblem } from "../tools.ts";
import { fail, note, type Io } from "../io.ts";
import { shownDatabase } from "../../config/database.ts";
import { keyVariable } from "../../config/sources.ts";
import type { Settings } from "../../config/settings.ts";
import { operatingSystemUser } from "../../core/audit.ts";
import { isLive, type Key } from "../../core/keys.ts";
import { formatUsd } from "../../core/money.ts";
import { createLog } from "../../platform/log.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KeyStore } from "../../ports/key-store.ts";
import type { LedgerQueries } from "../../ports/ledger.ts";
import type { RunSessions } from "../../ports/run-sessions.ts";
import { sessionJson } from "../../reporting/run-session.ts";
import type { RunSessionJson } from "../../reporting/shapes/figures.ts";
import { calendarOf, systemClock } from "../../platform/clock.ts";
import { completionTotal, promptTotal } from "../../core/usage.ts";
import { openLedger } from "../../server/ledger.ts";
import { packageVersion } from "../../server/package.ts";
import { tuneRuntime } from "../../server/runtime.ts";
import { startServing, type Serving } from "../../server/serving.ts";
import { userName } from "./user-name.ts";

export interface RunParams {
  /** Command and its arguments. */
  readonly words: readonly string[];
  /** Name or id of the session's key; null if none is named. */
  readonly key: string | null;
  /** Text of a key, from the environment; null if it is not set. */
  readonly secret: string | null;
  readonly session: NewSession;
}

/** Longest wait for an answer of the proxy, in milliseconds. */
const patienceMs = 15_000;
/** Longest wait for requests to settle after the command has ended, in milliseconds. */
const settleMs = 3_000;
const pollEveryMs = 50;

const notFound = 127;
const notExecutable = 126;

/** Error whose message is shown to the user. */
class Problem extends Error {
  readonly problems: readonly string[];

  constructor(...problems: readonly string[]) {
    super(problems.join("; "));
    this.problems = problems;
  }
}

/** Session of the command, begun through the proxy or in the ledger. */
interface Session {
  readonly credential: string;
  readonly id: string;
  readonly expiresAt: string;
  /** Reads the present sums of the session. */
  read(): Promise<RunSessionJson>;
  end(): Promise<unknown>;
}

/** Runs a command in its own session. Returns its exit code. */
export async function runInSession(params: RunParams, settings: Settings, io: Io): Promise<number> {
  const signals = new PassedSignals(io);
  await using owned = new AsyncDisposableStack();
  owned.defer(() => signals.stop());
  try {
    const clock = systemClock();
    const running = await findProxy(settings);
    const own = running === null ? owned.use(await startOwn(settings)) : null;
    const url = own?.url ?? running ?? "";
    const session =
      params.key === null && params.secret !== null
        ? await beginByKey(url, params.secret, params)
        : await beginByLedger(params, own ?? owned.use(await openStore(settings, clock)), clock);
    if (own === null) await expectKnown(url, session, settings);
    const code = await runProgram(params.words, { url, session, env: io.env, signals, io });
    await endAndPrint(session, io);
    if (own !== null) await Promise.race([own.settled(), pause(settleMs, undefined, { ref: false })]);
    return code;
  } catch (error) {
    if (error instanceof Problem) return fail(io, error.problems);
    throw error;
  }
}

/** Returns the address of the proxy that listens at the configured address; null if none does. */
async function findProxy({ listen: { host, port } }: Settings): Promise<string | null> {
  if (port === 0) return null;
  const name = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "[::1]" : host.includes(":") ? `[${host}]` : host;
  const url = `http://${name}:${port}`;
  try {
    const answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(patienceMs) });
    const body = await answer.text();
    if (answer.ok && body === '{"status":"ok"}') return url;
  } catch (error) {
    if ((error as { cause?: { code?: string } }).cause?.code === "ECONNREFUSED") return null;
    throw new Problem(`${url} does not answer: ${messageOf(error)}`);
  }
  throw new Problem(`what listens at ${url} is no farebox; --port says where one listens, or 0 starts one`);
}

/** Starts a proxy for this session only. It logs only errors, to stderr. */
async function startOwn(settings: Settings): Promise<Serving> {
  const { gateway, listen, logLevel } = settings;
  if (gateway.address === null || gateway.apiKey === null)
    throw new Problem(
      `no farebox listens at ${listen.host}:${listen.port}, and FAREBOX_GATEWAY_URL and FAREBOX_GATEWAY_API_KEY are needed to start one`,
    );
  tuneRuntime();
  const level = logLevel === "info" ? "warn" : logLevel;
  const started = await startServing(
    { ...settings, listen: { ...listen, host: "127.0.0.1", port: 0, workers: 1 } },
    {
      clock: systemClock(),
      log: createLog({ level, isTerminal: process.stderr.isTTY === true }),
      version: packageVersion(),
    },
  );
  if (!started.ok) {
    const isServed = started.problems.some((problem) => problem.includes("in use by another farebox"));
    throw new Problem(
      ...started.problems,
      ...(isServed ? ["--port says where that one listens; several sessions at a time need a farebox serve"] : []),
    );
  }
  return started.serving;
}

interface OpenLedger {
  readonly keys: KeyStore;
  readonly sessions: RunSessions;
  readonly ledger: LedgerQueries;
}

async function openStore(settings: Settings, clock: Clock): Promise<OpenLedger & AsyncDisposable> {
  const options = { calendar: calendarOf(settings.timeZone), clock };
  for (const access of ["read", "command"] as const) {
    const opening = await openLedger(settings.database, { ...options, access });
    if (!opening.ok) throw new Problem(storeProblem(opening.failure, shownDatabase(settings.database)));
    if (access === "command") return opening.store;
    await opening.store[Symbol.asyncDispose]();
  }
  throw new Error("unreachable");
}

/** Begins a session in the ledger. The key's text is not needed: a user who can open the ledger can change every key. */
async function beginByLedger(
  params: RunParams,
  { keys, sessions, ledger }: OpenLedger,
  clock: Clock,
): Promise<Session> {
  const key = await keyFor(params.key, keys, clock.now());
  const begun = await beginSession({ sessions, clock }, key, params.session, operatingSystemUser(userName()));
  if (!begun.ok) throw new Problem(begun.message);
  const { session, credential } = begun;
  return {
    credential,
    id: session.id,
    expiresAt: new Date(session.expiresAt).toISOString(),
    read: async () => sessionJson(ledger, (await sessions.find(session.id)) ?? session, key.name, clock.now()),
    end: () => sessions.end(session.id, clock.now()),
  };
}

async function keyFor(name: string | null, keys: KeyStore, now: number): Promise<Key> {
  if (name !== null) {
    const key = await keys.find(name);
    if (key === undefined) throw new Problem(`there is no key named ${JSON.stringify(name)}`);
    if (!isLive(key, now)) throw new Problem(`${key.name} is ${key.revokedAt === null ? "expired" : "revoked"}`);
    return key;
  }
  const live = (await keys.list()).filter((key) => isLive(key, now));
  const [only] = live;
  if (only === undefined) throw new Problem("there is no valid key; farebox keys create NAME creates one");
  if (live.length === 1) return only;
  const names = live.slice(0, 10).map((key) => key.name);
  const more = live.length > names.length ? ` and ${live.length - names.length} more` : "";
  throw new Problem(
    `there are ${live.length} keys: say whose session it is with --key NAME, or send a key in ${keyVariable}; they are ${names.join(", ")}${more}`,
  );
}

/** Begins a session through the proxy with the key's text, without access to the ledger. */
async function beginByKey(url: string, key: string, { session: wanted }: RunParams): Promise<Session> {
  const { budget_usd: budget, ...rest } = wanted;
  const body = { ...rest, ...(budget !== null && { budget_usd: formatUsd(budget) }) };
  const begun = (await askProxy(url, { method: "POST", path: "", credential: key, body })) as {
    readonly id: string;
    readonly api_key: string;
    readonly expires_at: string;
  };
  const one = { path: `/${begun.id}`, credential: begun.api_key };
  return {
    credential: begun.api_key,
    id: begun.id,
    expiresAt: begun.expires_at,
    read: async () => (await askProxy(url, { method: "GET", ...one })) as RunSessionJson,
    end: () => askProxy(url, { method: "DELETE", ...one }),
  };
}

interface Asked {
  readonly method: string;
  /** Path below the path of the sessions. */
  readonly path: string;
  readonly credential: string;
  readonly body?: object;
}

async function askProxy(url: string, { method, path, credential, body }: Asked): Promise<unknown> {
  const answer = await fetch(`${url}/v1/farebox/sessions${path}`, {
    method,
    headers: { authorization: `Bearer ${credential}`, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
    redirect: "error",
    signal: AbortSignal.timeout(patienceMs),
  }).catch((error: unknown) => {
    throw new Problem(`the farebox at ${url} does not answer: ${messageOf(error)}`);
  });
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  const message = /"message":("(?:[^"\\]|\\.)*")/.exec(text)?.[1];
  throw new Problem(
    `the farebox at ${url} refuses: ${message === undefined ? `status ${answer.status}` : (JSON.parse(message) as string)}`,
  );
}

/** Throws if the proxy does not know the session: then the proxy uses another ledger. */
async function expectKnown(url: string, session: Session, settings: Settings): Promise<void> {
  try {
    await askProxy(url, { method: "GET", path: `/${session.id}`, credential: session.credential });
  } catch (error) {
    await session.end().catch(() => undefined);
    if (!(error instanceof Problem)) throw error;
    throw new Problem(
      ...error.problems,
      `the ledger at ${shownDatabase(settings.database)} may be another one than that farebox has; --database and --port say which`,
    );
  }
}

interface Running {
  readonly url: string;
  readonly session: Session;
  readonly env: Io["env"];
  readonly signals: PassedSignals;
  readonly io: Io;
}

/**
 * Runs the command until it exits. Its environment has the proxy's address and the session's credential, but no FAREBOX_
 * variable.
 */
function runProgram(words: readonly string[], { url, session, env, signals, io }: Running): Promise<number> {
  const [program = "", ...args] = words;
  const early = signals.seen;
  if (early !== null) return Promise.resolve(codeOf(early));
  const inherited = Object.entries(env).filter(([name]) => !/^FAREBOX_/i.test(name));
  return new Promise((resolve) => {
    const failed = (error: NodeJS.ErrnoException) => {
      const isMissing = error.code === "ENOENT";
      const why = isMissing ? "is not a command that can be found" : `cannot be run: ${error.code}`;
      note(io, `farebox: ${JSON.stringify(program)} ${why}`);
      resolve(isMissing ? notFound : notExecutable);
    };
    try {
      const child = spawn(program, args, {
        stdio: "inherit",
        env: {
          ...Object.fromEntries(inherited),
          OPENAI_BASE_URL: `${url}/v1`,
          OPENAI_API_KEY: session.credential,
        },
      });
      // Once the command runs, an error only means that a signal could not be sent.
      child.on("error", (error) => child.pid === undefined && failed(error));
      child.once("exit", (code, signal) => resolve(signal === null ? (code ?? 1) : codeOf(signal)));
      signals.passTo((signal) => child.kill(signal));
    } catch (error) {
      // Node throws some errors and emits the others.
      failed(error as NodeJS.ErrnoException);
    }
  });
}

/** Returns the exit code that shells use for a signal. */
function codeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/**
 * Passes signals that would end this process to the command instead. Signals from terminal keys are not passed: the terminal
 * already sends them to the command, which must not get them twice.
 */
class PassedSignals {
  readonly #names: readonly NodeJS.Signals[] = ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR2"];
  readonly #fromKeys: ReadonlySet<NodeJS.Signals>;
  #pass: ((signal: NodeJS.Signals) => void) | null = null;
  /** First signal that arrived before the command started. */
  seen: NodeJS.Signals | null = null;

  constructor({ isTTY, isErrorTTY = isTTY }: Pick<Io, "isTTY" | "isErrorTTY">) {
    const hasTerminal = isTTY || isErrorTTY || process.stdin.isTTY;
    this.#fromKeys = new Set(hasTerminal ? ["SIGINT", "SIGQUIT"] : []);
    for (const name of this.#names) process.on(name, this.#onSignal);
  }

  passTo(pass: (signal: NodeJS.Signals) => void): void {
    this.#pass = pass;
  }

  stop(): void {
    for (const name of this.#names) process.off(name, this.#onSignal);
  }

  readonly #onSignal = (signal: NodeJS.Signals): void => {
    if (this.#pass === null) this.seen ??= signal;
    else if (!this.#fromKeys.has(signal)) this.#pass(signal);
  };
}

/** Ends the session, waits until its requests have settled, and prints the cost. */
async function endAndPrint(session: Session, io: Io): Promise<void> {
  try {
    await session.end();
    const until = performance.now() + settleMs;
    let sums = await session.read();
    while (sums.pending.requests > 0 && performance.now() < until) {
      await pause(pollEveryMs);
      sums = await session.read();
    }
    for (const line of sumLines(sums)) note(io, line);
  } catch (error) {
    note(
      io,
      `farebox: the session ${session.id} could not be ended, and expires at ${session.expiresAt}: ${messageOf(error)}`,
    );
    note(io, "farebox: farebox report --by tag:session says what it cost");
  }
}

/** Formats the cost of a session for a person. */
export function sumLines(sums: RunSessionJson): string[] {
  const { id, key, models, pending, budget, unpriced_requests: unpriced } = sums;
  return [
    `farebox: session ${id} of ${key}: ${figures(sums)}`,
    ...(models.length > 1 ? models.map((each) => `  ${each.model}: ${figures(each)}`) : []),
    ...(models.length === 1 ? [`  all of it ${models[0]?.model}`] : []),
    ...(unpriced > 0 ? [`  ${counted(unpriced, "request")} without a price`] : []),
    ...(pending.requests > 0
      ? [`  ${counted(pending.requests, "request")} not settled yet, with USD ${pending.held_usd} held`]
      : []),
    ...(budget === null ? [] : [`  USD ${budget.remaining_usd} of the budget of USD ${budget.limit_usd} are left`]),
  ];
}

function figures({
  requests,
  tokens,
  cost_usd: cost,
  estimated,
}: RunSessionJson | RunSessionJson["models"][number]): string {
  const total = promptTotal(tokens) + completionTotal(tokens);
  const doubt =
    estimated.requests === 0
      ? ""
      : ` (USD ${estimated.cost_usd} of it estimated, in ${counted(estimated.requests, "request")})`;
  return `${counted(requests, "request")}, ${counted(total, "token")}, USD ${cost}${doubt}`;
}

function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
}

function messageOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
