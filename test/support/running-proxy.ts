import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setBudget } from "../../src/admin/budget-changes.ts";
import { createKey, type NewKey } from "../../src/admin/key-changes.ts";
import { startServing, type Serving } from "../../src/server/serving.ts";
import type { Settings } from "../../src/config/settings.ts";
import type { Charge } from "../../src/core/charge.ts";
import { silentLog } from "./captured-log.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Log } from "../../src/ports/log.ts";
import type { Sandbox, SandboxOptions } from "../../src/sandbox/options.ts";
import { startSandbox } from "../../src/sandbox/server.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { createTokenCounter } from "../../src/platform/tokens/token-counter.ts";
import { buildOnce } from "./built-catalogues.ts";
import { ledgerThreads } from "./effort.ts";
import { writeEmptyLedger } from "./new-ledger.ts";
import { settingsFrom } from "./settings-from.ts";

export interface RunningProxy extends AsyncDisposable {
  readonly url: string;
  readonly database: string;
  readonly sandbox: Sandbox;
  readonly serving: Serving;
  /** Settings with which it was started, for another start on the same file. */
  readonly settings: Settings;
  /** Text of the first key, named `alice` unless the options state another name. */
  readonly key: string;
  /** Creates another key and returns its text. */
  addKey(name: string, more?: Omit<NewKey, "name">): Promise<string>;
  budget(
    scope: string,
    limit: string,
    period?: "total" | "1h" | "1d" | "1w" | "1mo",
    mode?: "hard" | "soft",
  ): Promise<void>;
  /** Sends a chat request, with the first key unless `init` has another. Undefined members of `body` are left out. */
  chat(
    body: object,
    init?: { readonly key?: string; readonly headers?: Record<string, string>; readonly signal?: AbortSignal },
  ): Promise<Response>;
  /** Waits until every request has settled, then returns all charges, oldest first. */
  charges(): Promise<Charge[]>;
  /** Returns the only charge, once every request has settled. Throws if there is none or more than one. */
  onlyCharge(): Promise<Charge>;
  metrics(): Promise<string>;
}

export interface ProxyOptions {
  readonly sandbox?: SandboxOptions;
  /** Address of the gateway, instead of the sandbox's: for example, one at which no gateway listens. */
  readonly gatewayUrl?: string;
  /** Name of the first key; for a ledger that already has an `alice`. */
  readonly keyName?: string;
  /** FAREBOX_ variables, and the standard ones. */
  readonly env?: Readonly<Record<string, string>>;
  /** Clock, for a test that controls the time. */
  readonly clock?: Clock;
  readonly log?: Log;
  /** Changes settings to values that no variable accepts, such as a gateway timeout below a second. */
  readonly adjust?: (settings: Settings) => Settings;
  /**
   * Runs the ledger in separate threads as `serve` does, even in `npm test`. Two threads cost more than the rest of a
   * start.
   */
  readonly threads?: boolean;
}

/** Engine of this test run; undefined for the default. */
export const testEngine = process.env["TEST_ENGINE"];

/** Shared by all proxies of this process, because its thread takes a tenth of a second to start. */
const tokens = createTokenCounter();

/** Starts the real proxy with a real SQLite file and a real sandbox, in this process. */
export async function startProxy(options: ProxyOptions = {}): Promise<RunningProxy> {
  const clock = options.clock ?? systemClock();
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "farebox-test-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const database = join(folder, "farebox.db");
  const sandbox = owned.use(await startSandbox(options.sandbox ?? {}));
  const settings = settingsFrom({
    FAREBOX_GATEWAY_URL: options.gatewayUrl ?? sandbox.url,
    FAREBOX_GATEWAY_API_KEY: sandbox.apiKey,
    FAREBOX_DATABASE: database,
    FAREBOX_PORT: "0",
    ...(testEngine && { FAREBOX_ENGINE: testEngine }),
    ...options.env,
  });
  if (settings.database.kind === "sqlite") writeEmptyLedger(settings.database.path);
  const adjusted = options.adjust === undefined ? settings : options.adjust(settings);
  const started = await startServing(adjusted, {
    clock,
    log: options.log ?? silentLog,
    version: "0.0.0-test",
    ledgerThreads: options.threads ?? ledgerThreads,
    tokens,
    buildCatalogue: buildOnce,
    keysRemembered: 1_000,
  });
  if (!started.ok) throw new Error(started.problems.join("; "));
  const serving = owned.use(started.serving);
  const addKey = async (name: string, more: Omit<NewKey, "name"> = {}) => {
    const created = await createKey({ keys: serving.keys, clock, by: "test" }, { name, ...more });
    if (!created.ok) throw new Error(JSON.stringify(created));
    return created.text;
  };
  const key = await addKey(options.keyName ?? "alice");
  const charges = async () => {
    await serving.settled();
    const page = await serving.ledger.charges({ limit: 1000 });
    return page.charges.toReversed();
  };
  const kept = owned.move();
  return {
    url: serving.url,
    database,
    sandbox,
    serving,
    settings: adjusted,
    key,
    addKey,
    async budget(scope, limit, period = "total", mode = "hard") {
      const set = await setBudget(
        { ledger: serving.ledger, keys: serving.keys, clock, by: "test" },
        { scope, limit, period, mode },
      );
      if (!set.ok) throw new Error(JSON.stringify(set));
    },
    chat: (body, init = {}) =>
      fetch(`${serving.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${init.key ?? key}`, ...init.headers },
        body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hello" }], ...body }),
        ...(init.signal && { signal: init.signal }),
      }),
    charges,
    async onlyCharge() {
      const all = await charges();
      const [first] = all;
      if (first === undefined || all.length !== 1) throw new Error(`expected one charge, found ${all.length}`);
      return first;
    },
    metrics: async () => (await fetch(`${serving.url}/metrics`)).text(),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
