import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { bracketed } from "../core/addresses.ts";
import { formatUsd } from "../core/money.ts";
import { serveAccount } from "./account.ts";
import { serveSpeech, serveTranscription } from "./audio.ts";
import { Billing } from "./billing.ts";
import {
  hasBearerKey,
  refuseScenario,
  sendError,
  sendJson,
  withScenario,
  type Call,
  type SharedState,
} from "./call.ts";
import { serveChat, serveText } from "./chat.ts";
import { completionsForm } from "./completions.ts";
import { serveEmbeddings } from "./embeddings.ts";
import { serveFault } from "./faults.ts";
import { Observer } from "./observer.ts";
import type { RequestHead, Sandbox, SandboxOptions } from "./options.ts";
import { serveImages } from "./images.ts";
import { serveMessages, serveTokenCount } from "./messages.ts";
import { PromptCache } from "./prompt-cache.ts";
import { digest } from "./random.ts";
import { compactionForm, responsesForm } from "./responses.ts";
import { parseScenario, type Scenario } from "./scenarios.ts";
import { billEndedTasks, serveHistory, serveTasks, serveUpload, taskPath } from "./tasks.ts";
import { countTokens } from "./text.ts";
import { Webhooks } from "./webhooks.ts";

/** Starts a fake gateway on a TCP port. Rejects if the port is taken. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const sockets = new Set<Socket>();
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: options.keepAliveMs ?? defaults.keepAliveMs });
  const shared = sharedStateOf(options, () => new URL(urlOf(server, options.host)));
  const { observer } = shared;
  server.on("connection", (socket) => {
    sockets.add(socket);
    observer.openConnections = sockets.size;
    observer.changed();
    socket.on("error", ignore);
    socket.once("close", () => {
      sockets.delete(socket);
      observer.openConnections = sockets.size;
      observer.changed();
    });
  });
  server.on("request", (request, response) => void answer(shared, request, response));
  countTokens("Builds the tokenizer before the first request.");
  server.listen(shared.options.port, shared.options.host, 4096);
  await once(server, "listening");
  return sandboxOf(shared, server, sockets);
}

function ignore(): void {}

const defaults = {
  host: "127.0.0.1",
  port: 0,
  apiKey: "sk-sandbox",
  seed: 1,
  latencyMs: 0,
  chunkDelayMs: 0,
  keepAliveMs: 65_000,
  equivalentInUsd: "data",
  webhookRetryMs: 5_000,
  startingBalanceUsd: "25.00",
  keepCalls: 100_000,
  keepRequests: 1000,
  now: () => Date.now(),
} as const;

function sharedStateOf(given: SandboxOptions, url: () => URL): SharedState {
  const options = { ...defaults, ...given };
  const { now, prices = {}, minimum = {}, billingErrors: errors = [] } = options;
  const observer = new Observer(options.keepRequests);
  return {
    options,
    billing: new Billing({ ...options, prices, minimum, errors }),
    observer,
    tasks: new Map(),
    promptCache: new PromptCache(now),
    webhooks: new Webhooks({
      now,
      retryMs: options.webhookRetryMs,
      onAttempt: (attempt) => observer.recordWebhookAttempt(attempt),
    }),
    unbilled: new Set(),
    idPrefix: digest(options.seed, "request").slice(0, 20),
    url,
  };
}

function urlOf(server: Server, host = "127.0.0.1"): string {
  const { port } = server.address() as AddressInfo;
  return `http://${bracketed(host)}:${port}`;
}

function sandboxOf(shared: SharedState, server: Server, sockets: ReadonlySet<Socket>): Sandbox {
  const { observer, billing, options } = shared;
  const address = server.address() as AddressInfo;
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= closeServer(server, sockets, shared);
    return closed;
  };
  const balance = () => {
    billEndedTasks(shared.unbilled);
    return billing.balance;
  };
  const sandbox: Sandbox = {
    url: urlOf(server, options.host),
    port: address.port,
    apiKey: options.apiKey,
    requests: observer.requests,
    accountRequests: observer.accountRequests,
    ledger: billing.ledger,
    get billed() {
      billEndedTasks(shared.unbilled);
      return billing.totals;
    },
    get openConnections() {
      return observer.openConnections;
    },
    get activeStreams() {
      return observer.activeStreams;
    },
    webhookAttempts: observer.webhookAttempts,
    balanceUsd: () => formatUsd(balance()),
    balance,
    topUp: (amountUsd) => billing.account.topUp(amountUsd),
    expire: (amountUsd) => billing.account.expire(amountUsd),
    freeze: (amountUsd) => billing.account.freeze(amountUsd),
    unfreeze: (amountUsd) => billing.account.unfreeze(amountUsd),
    useByOthers: (amountUsd) => billing.account.useByOthers(amountUsd),
    waitFor: (condition, timeoutMs = 45_000) =>
      observer.waitFor(() => condition(sandbox), timeoutMs, condition.toString()),
    close,
    [Symbol.asyncDispose]: close,
  };
  return sandbox;
}

/** Closes the server. Resolves when all sockets are closed and no stream runs. */
async function closeServer(
  server: Server,
  sockets: ReadonlySet<Socket>,
  { observer, webhooks }: SharedState,
): Promise<void> {
  await webhooks.stop();
  observer.failWaiters();
  server.close();
  for (const socket of sockets) socket.destroy();
  const isIdle = () => sockets.size === 0 && observer.activeStreams === 0;
  await observer.waitFor(isIdle, 15_000, "its sockets to close");
}

const nothing = Buffer.alloc(0);

/** Handles one request from its headers to the end of its answer. */
async function answer(shared: SharedState, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const head: RequestHead = { method: request.method ?? "", path: request.url ?? "", headers: request.headers };
  const call = open(shared, request, response, head);
  response.on("error", ignore);
  try {
    const early = scenarioOf(call, shared.options.scenarioAtHeaders?.(head));
    if (early !== undefined && "early-response" in early.scenario) return await serveFault(early, "early-response");
    const body = await readBody(request);
    if (body === undefined) return undefined;
    call.seen.body = body;
    shared.observer.changed();
    const ready = scenarioOf(call, shared.options.scenario?.(call.seen));
    if (ready === undefined) return refuseScenario(call);
    changeBalance(ready);
    return await route(ready);
  } catch (error) {
    if (!response.headersSent) sendError(call, 500, "sandbox_error", null, String(error));
    else response.destroy();
    return undefined;
  }
}

function open(shared: SharedState, request: IncomingMessage, response: ServerResponse, head: RequestHead): Call {
  const { options, observer } = shared;
  const seen = observer.record({ ...head, body: nothing }, options.now());
  const [, redirects = "0", path = ""] = /^(?:\/moved\/(\d{1,9}))?([^?]*)/.exec(head.path) ?? [];
  const ended = new AbortController();
  response.once("close", () => {
    if (seen.ended === "open") seen.ended = response.writableFinished ? "answered" : "clientLeft";
    ended.abort();
    observer.changed();
  });
  return {
    shared,
    head,
    request,
    response,
    seen,
    path,
    redirects: Number(redirects),
    number: observer.requestCount,
    requestId: `req_${shared.idPrefix}${observer.requestCount.toString(16).padStart(12, "0")}`,
    gone: ended.signal,
    scenario: {},
  };
}

/** Applies the scenarios of the header and of the options. Returns undefined if one of them is unknown. */
function scenarioOf(call: Call, chosen: string | undefined): Call | undefined {
  const header = call.head.headers["x-sandbox-scenario"];
  const text = [typeof header === "string" ? header : "", chosen ?? ""].filter((part) => part !== "").join("+");
  if (text === "") return call;
  const scenario: Scenario | null = parseScenario(text);
  return scenario === null ? undefined : withScenario(call, text, scenario);
}

/** Reads the whole body. Resolves to undefined if the client leaves before its end. */
function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.once("end", () => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
    request.once("close", () => resolve(undefined));
    request.once("error", () => resolve(undefined));
  });
}

/** Applies the scenario's changes to the account balance, before the request is answered. */
function changeBalance({ scenario, shared }: Call): void {
  const { account } = shared.billing;
  if (scenario["top-up"] !== undefined) account.topUp(scenario["top-up"]);
  if (scenario.expire !== undefined) account.expire(scenario.expire);
  if (scenario.freeze !== undefined) account.freeze(scenario.freeze);
  if (scenario.unfreeze !== undefined) account.unfreeze(scenario.unfreeze);
  if (scenario.others !== undefined) account.useByOthers(scenario.others);
}

function route(call: Call): Promise<void> | void {
  billEndedTasks(call.shared.unbilled);
  const endpoint = `${call.head.method} ${call.path}`;
  if (endpoint === "POST /v1/chat/completions") return serveChat(call);
  if (endpoint === "POST /v1/responses") return serveText(call, responsesForm);
  if (endpoint === "POST /v1/responses/compact") return serveText(call, compactionForm);
  if (endpoint === "POST /v1/completions") return serveText(call, completionsForm);
  if (endpoint === "POST /v1/messages") return serveMessages(call);
  if (endpoint === "POST /v1/messages/count_tokens") return serveTokenCount(call);
  if (/^POST \/v1\/images\/(generations|edits|variations)$/.test(endpoint)) return serveImages(call);
  if (endpoint === "POST /v1/audio/speech") return serveSpeech(call);
  if (/^POST \/v1\/audio\/(transcriptions|translations)$/.test(endpoint)) return serveTranscription(call);
  if (endpoint === "POST /v1/embeddings") return serveEmbeddings(call);
  const asked = taskPath(call);
  if (asked !== undefined) return serveTasks(call, asked);
  if (endpoint === "GET /api/open/tasks/histories") return serveHistory(call);
  if (endpoint === "POST /api/ephemeral_resource") return serveUpload(call);
  if (endpoint === "GET /account/info") return serveAccount(call);
  if (endpoint === "GET /v1/models") return sendModels(call);
  return sendError(call, 404, "invalid_request_error", "unknown_url", `Unknown request URL: ${endpoint}.`);
}

function sendModels(call: Call): void {
  if (!hasBearerKey(call)) return undefined;
  const data = call.shared.billing.models.map((id) => ({
    id,
    object: "model",
    created: 1_700_000_000,
    owned_by: "gateway",
  }));
  return sendJson(call, 200, { object: "list", data });
}
