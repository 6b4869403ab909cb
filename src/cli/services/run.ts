import { spawn } from "node:child_process";
import { constants } from "node:os";
import { basename } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beginSession } from "../../admin/run-sessions.ts";
import type { RunParams, Tools } from "../tools.ts";
import { fail, note, type Io } from "../io.ts";
import { shownDatabase } from "../../config/database.ts";
import { exempting } from "../../config/outbound.ts";
import { keyVariable } from "../../config/sources.ts";
import type { Settings } from "../../config/settings.ts";
import { hostOf, localUrl } from "../../core/addresses.ts";
import { operatingSystemUser } from "../../core/audit.ts";
import { messageOf } from "../../core/fault.ts";
import { stateOf, type Key } from "../../core/keys.ts";
import { formatUsd } from "../../core/money.ts";
import { isoTime } from "../../core/time.ts";
import { createLog } from "../../platform/log.ts";
import type { KeyStore, Store } from "../../ports/stores.ts";
import type { LedgerQueries } from "../../ports/ledger.ts";
import { sessionJson } from "../../reporting/run-session.ts";
import type { RunSessionJson } from "../../reporting/shapes/figures.ts";
import { sumLines } from "./run-summary.ts";
import { tuneRuntime } from "../../server/runtime.ts";
import { startServing, type Serving } from "../../server/serving.ts";

/** Longest wait for an answer of the proxy, in milliseconds. */
const patienceMs = 15_000;
/** Longest wait for requests to settle after the command has ended, in milliseconds. */
const settleMs = 3_000;
/** Pause between two checks for requests that have not settled, in milliseconds. */
const pollEveryMs = 50;

/** Exit codes that shells use for a command that does not exist, and for a command that cannot be run. */
const notFound = 127;
const notExecutable = 126;

/** Error whose message is shown to the user. */
class UserError extends Error {
  readonly problems: readonly string[];

  constructor(...problems: readonly string[]) {
    super(problems.join("; "));
    this.problems = problems;
  }
}

/** Session of the command, created through the proxy or in the ledger. */
interface Session {
  readonly credential: string;
  readonly id: string;
  readonly expiresAt: string;
  /** Reads the current sums of the session. */
  read(): Promise<RunSessionJson>;
  end(): Promise<unknown>;
}

/** Runs a command in its own session. Returns its exit code. */
export async function runInSession(params: RunParams, tools: Tools): Promise<number> {
  const { io, settings } = tools;
  const signals = new ForwardedSignals(io);
  await using owned = new AsyncDisposableStack();
  owned.defer(() => signals.stop());
  try {
    const running = await findProxy(settings);
    const own = running === null ? owned.use(await startOwnProxy(tools)) : null;
    const url = own?.url ?? running ?? "";
    const session =
      params.key === null && params.secret !== null
        ? await beginByKey(url, params.secret, params)
        : await beginByLedger(params, own ?? owned.use(await openStore(tools)), tools);
    if (own === null) await expectSameLedger(url, session, settings);
    const code = await runProgram(params.words, { url, session, env: io.env, signals, io });
    await endAndPrint(session, io);
    if (own !== null) await Promise.race([own.settled(), pause(settleMs, undefined, { ref: false })]);
    return code;
  } catch (error) {
    if (error instanceof UserError) return fail(io, error.problems);
    throw error;
  }
}

/**
 * Returns the address of the proxy that listens at the configured address; null if no program listens there. Throws if
 * the program that listens there is not Farebox.
 */
async function findProxy({ listen: { host, port } }: Settings): Promise<string | null> {
  if (port === 0) return null;
  const url = localUrl(host, port);
  try {
    const answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(patienceMs) });
    const body = await answer.text();
    if (answer.ok && body === '{"status":"ok"}') return url;
  } catch (error) {
    if ((error as { cause?: { code?: string } }).cause?.code === "ECONNREFUSED") return null;
    throw new UserError(`${url} does not answer: ${reasonOf(error)}`);
  }
  throw new UserError(
    `the program that listens at ${url} is not farebox; set --port to the port of a farebox, or to 0 to start one`,
  );
}

/** Starts a proxy for this session only. Its log goes to stderr, without info lines. */
async function startOwnProxy({ settings, clock, version }: Tools): Promise<Serving> {
  const { gateway, listen, logLevel } = settings;
  if (gateway.address === null || gateway.apiKey === null)
    throw new UserError(
      `no farebox listens at ${listen.host}:${listen.port}, and FAREBOX_GATEWAY_URL and FAREBOX_GATEWAY_API_KEY are needed to start one`,
    );
  tuneRuntime();
  const level = logLevel === "info" ? "warn" : logLevel;
  const started = await startServing(
    { ...settings, listen: { ...listen, host: "127.0.0.1", port: 0, workers: 1 } },
    { clock, log: await createLog({ level, isTerminal: process.stderr.isTTY === true }), version },
  );
  if (!started.ok) {
    const isServed = started.problems.some((problem) => problem.includes("in use by another farebox"));
    throw new UserError(
      ...started.problems,
      ...(isServed ? ["set --port to the port of that farebox; parallel sessions need a running farebox serve"] : []),
    );
  }
  return started.serving;
}

async function openStore({ openLedger }: Tools): Promise<Store> {
  const opening = await openLedger("change");
  if (!opening.ok) throw new UserError(...[opening.message].flat());
  return opening.store;
}

/**
 * Begins a session in the ledger. The key's text is not needed: a user who can open the ledger can change every key.
 */
async function beginByLedger(
  params: RunParams,
  { keys, sessions, ledger }: Pick<Store, "keys" | "sessions"> & { readonly ledger: LedgerQueries },
  { clock, userName }: Tools,
): Promise<Session> {
  const key = await keyFor(params.key, keys, clock.now());
  const by = operatingSystemUser(userName());
  const begun = await beginSession({ sessions, clock }, key, params.session, { by });
  if (!begun.ok) throw new UserError(begun.message);
  const { session, credential } = begun;
  return {
    credential,
    id: session.id,
    expiresAt: isoTime(session.expiresAt),
    read: async () => sessionJson(ledger, (await sessions.find(session.id)) ?? session, key.name, clock.now()),
    end: () => sessions.end(session.id, clock.now()),
  };
}

/** Returns the key with this name or id; without a name, the only valid key. Throws if there is no such key. */
async function keyFor(name: string | null, keys: KeyStore, now: number): Promise<Key> {
  if (name !== null) {
    const key = await keys.find(name);
    if (key === undefined) throw new UserError(`there is no key named ${JSON.stringify(name)}`);
    const state = stateOf(key, now);
    if (state !== "live") throw new UserError(`${key.name} is ${state}`);
    return key;
  }
  const live = (await keys.list()).filter((key) => stateOf(key, now) === "live");
  const [only] = live;
  if (only === undefined) throw new UserError("there is no valid key; farebox keys create NAME creates one");
  if (live.length === 1) return only;
  const names = live.slice(0, 10).map((key) => key.name);
  const more = live.length > names.length ? ` and ${live.length - names.length} more` : "";
  throw new UserError(
    `there are ${live.length} valid keys (${names.join(", ")}${more}); choose one with --key NAME, or set ${keyVariable}`,
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
  const session = { path: `/${begun.id}`, credential: begun.api_key };
  return {
    credential: begun.api_key,
    id: begun.id,
    expiresAt: begun.expires_at,
    read: async () => (await askProxy(url, { method: "GET", ...session })) as RunSessionJson,
    end: () => askProxy(url, { method: "DELETE", ...session }),
  };
}

interface ProxyCall {
  readonly method: string;
  /** Path below `/v1/farebox/sessions`. */
  readonly path: string;
  readonly credential: string;
  readonly body?: object;
}

async function askProxy(url: string, { method, path, credential, body }: ProxyCall): Promise<unknown> {
  const answer = await fetch(`${url}/v1/farebox/sessions${path}`, {
    method,
    headers: { authorization: `Bearer ${credential}`, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
    redirect: "error",
    signal: AbortSignal.timeout(patienceMs),
  }).catch((error: unknown) => {
    throw new UserError(`the farebox at ${url} does not answer: ${reasonOf(error)}`);
  });
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  const message = /"message":("(?:[^"\\]|\\.)*")/.exec(text)?.[1];
  throw new UserError(
    `the farebox at ${url} refused the request: ${message === undefined ? `status ${answer.status}` : (JSON.parse(message) as string)}`,
  );
}

/**
 * Asks the proxy for the session. If the proxy does not return it, ends the session and throws, because the proxy may
 * use another ledger.
 */
async function expectSameLedger(url: string, session: Session, settings: Settings): Promise<void> {
  try {
    await askProxy(url, { method: "GET", path: `/${session.id}`, credential: session.credential });
  } catch (error) {
    await session.end().catch(() => undefined);
    if (!(error instanceof UserError)) throw error;
    throw new UserError(
      ...error.problems,
      `that farebox may use another ledger than ${shownDatabase(settings.database)}; check --database and --port`,
    );
  }
}

interface Running {
  readonly url: string;
  readonly session: Session;
  readonly env: Io["env"];
  readonly signals: ForwardedSignals;
  readonly io: Io;
}

/** Variables that the command does not inherit. With Anthropic's key, clients would send two different credentials. */
const withheld = /^(?:FAREBOX_.*|ANTHROPIC_API_KEY)$/i;

/**
 * Returns the arguments of the command. Codex reads the address of its provider only from its configuration, so Farebox
 * states it in arguments before those of the user, which win over them.
 */
function argumentsOf(program: string, args: readonly string[], url: string): readonly string[] {
  if (!/^codex(?:\.(?:cmd|exe))?$/i.test(basename(program))) return args;
  const provider = { name: "Farebox", base_url: `${url}/v1`, env_key: "OPENAI_API_KEY", wire_api: "responses" };
  const settings = [
    ["model_provider", "farebox"],
    ...Object.entries(provider).map(([name, value]) => [`model_providers.farebox.${name}`, value]),
  ];
  return [...settings.flatMap(([name, value]) => ["-c", `${name}=${JSON.stringify(value)}`]), ...args];
}

/**
 * Runs the command until it exits. Its environment has Farebox's address, which no proxy of the network can reach, and the
 * session's credential, in the variables of OpenAI's and Anthropic's clients, but no FAREBOX_ variable.
 */
function runProgram(words: readonly string[], { url, session, env, signals, io }: Running): Promise<number> {
  const [program = "", ...args] = words;
  const { earlySignal } = signals;
  if (earlySignal !== null) return Promise.resolve(exitCodeOf(earlySignal));
  const inherited = Object.entries(env).filter(([name]) => !withheld.test(name));
  return new Promise((resolve) => {
    const failed = (error: NodeJS.ErrnoException) => {
      const isMissing = error.code === "ENOENT";
      const why = isMissing ? "was not found" : `cannot be run: ${error.code}`;
      note(io, `farebox: ${JSON.stringify(program)} ${why}`);
      resolve(isMissing ? notFound : notExecutable);
    };
    try {
      const child = spawn(program, argumentsOf(program, args, url), {
        stdio: "inherit",
        env: {
          ...Object.fromEntries(inherited),
          ...exempting(hostOf(new URL(url)), env),
          OPENAI_BASE_URL: `${url}/v1`,
          OPENAI_API_KEY: session.credential,
          ANTHROPIC_BASE_URL: url,
          ANTHROPIC_AUTH_TOKEN: session.credential,
        },
      });
      // Once the command runs, an error only means that a signal could not be sent.
      child.on("error", (error) => child.pid === undefined && failed(error));
      child.once("exit", (code, signal) => resolve(signal === null ? (code ?? 1) : exitCodeOf(signal)));
      signals.passTo((signal) => child.kill(signal));
    } catch (error) {
      // Node throws some errors and emits the others.
      failed(error as NodeJS.ErrnoException);
    }
  });
}

/** Returns the exit code that shells use for a signal. */
function exitCodeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/**
 * Forwards to the command the signals that would end this process. Does not forward signals from terminal keys: the
 * terminal already sends them to the command, which must not receive them twice.
 */
class ForwardedSignals {
  readonly #names: readonly NodeJS.Signals[] = ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR2"];
  readonly #fromKeys: ReadonlySet<NodeJS.Signals>;
  #pass: ((signal: NodeJS.Signals) => void) | null = null;
  /** First signal that arrived before the command started. */
  earlySignal: NodeJS.Signals | null = null;

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
    if (this.#pass === null) this.earlySignal ??= signal;
    else if (!this.#fromKeys.has(signal)) this.#pass(signal);
  };
}

/** Ends the session, waits for at most `settleMs` until its requests have settled, and prints the cost. */
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
      `farebox: the session ${session.id} could not be ended and expires at ${session.expiresAt}: ${reasonOf(error)}`,
    );
    note(io, "farebox: farebox report --by tag:session shows its cost");
  }
}

/** Returns the message of an error's cause, which explains a failed `fetch`; without a cause, the error's own. */
function reasonOf(error: unknown): string {
  return messageOf(error instanceof Error ? (error.cause ?? error) : error);
}
