import { createServer } from "node:net";
import { availableParallelism } from "node:os";
import { ledgerFile } from "../../config/database.ts";
import { anyReceiver, proxyChoice } from "../../config/outbound.ts";
import { loadSettings, type LoadResult } from "../../config/load.ts";
import type { Settings } from "../../config/settings.ts";
import { environmentSource, fileSource, type Environment, type Flags, type ReadFile } from "../../config/sources.ts";
import {
  configVariable,
  settingNames,
  settingOf,
  variableOf,
  variablePrefix,
  type SettingName,
} from "../../config/table.ts";
import type { Clock } from "../../ports/clock.ts";
import { fetchWhole, personWaitsMsMax, type WholeAnswer, isKeyRefused } from "../../request/fetch-whole.ts";
import { describedFailure, type WholeFailure } from "../../request/gateway-failure.ts";
import { bracketed, isLoopbackHost, localUrl } from "../../core/addresses.ts";
import { messageOf } from "../../core/fault.ts";
import { shownProxy } from "../../core/outbound-proxy.ts";
import {
  failed,
  judgeClock,
  judgePrices,
  judgeWorkers,
  ok,
  skipped,
  warning,
  type Findings,
} from "../../reporting/doctor.ts";
import type { Check } from "../../reporting/shapes/commands.ts";
import { accountFault } from "../../wire/account.ts";
import { isObject, parseJson } from "../../wire/json.ts";
import { readStatedError } from "../../wire/stated-error.ts";
import { workerCount } from "../../server/workers/settings.ts";
import { examineFile, examinePermissions } from "./doctor-files.ts";
import { examineServer } from "./doctor-server.ts";
import { gatewaySettings, ledgerSettings, priceSettings, userSettings } from "../tools.ts";
import { priceFolders } from "../../server/price-folders.ts";

/** Longest wait for the program that listens on the port, in milliseconds. */
const portAnswerMsMax = 2_000;

/** Sources of the settings of `doctor`. */
interface DoctorInput {
  readonly flags: Flags;
  readonly env: Environment;
  readonly readFile: ReadFile;
}

type Report = (check: Check) => void;

/** Checks everything that `serve` needs, in order. A failed check does not stop the others. */
export async function examine(input: DoctorInput, clock: Clock, report: Report): Promise<void> {
  /** Checks one part. Skips it if its settings are wrong. */
  const examinePart = (
    name: string,
    uses: readonly SettingName[],
    part: (settings: Settings, clock: Clock) => Promise<Findings>,
  ) =>
    reportPart(name, report, async () => {
      const loaded = settingsOf(input, uses);
      return loaded.ok ? await part(loaded.settings, clock) : skipped(name, "fix its settings first");
    });
  await reportPart("settings", report, async () => examineSettings(input));
  await examinePart("gateway", gatewaySettings, examineGateway);
  await examinePart("database", userSettings, examineDatabase);
  await examinePart("prices", priceSettings, examinePrices);
  await reportPart("permissions", report, async () => examineFiles(input));
  await examinePart("alert webhook", ["alert_webhook", "alert_secret"], examineWebhook);
  await examinePart("public address", ["public_url", "gateway_url", "gateway_insecure"], async (settings) => [
    ...[judgePublicUrl(settings.listen.publicUrl, settings.gateway.address?.origin ?? null)].flat(),
    ...judgeTaskWebhooks(settings),
  ]);
  await examinePart("port", ["host", "port"], examinePort);
  await examinePart("workers", ["workers"], async (settings) =>
    judgeWorkers(workerCount(settings), availableParallelism()),
  );
}

/** Reports the checks of one part, or a failed check with the error if the part throws. */
async function reportPart(name: string, report: Report, part: () => Promise<Findings>): Promise<void> {
  try {
    for (const check of [await part()].flat()) report(check);
  } catch (error) {
    const [message] = messageOf(error).split("\n");
    report(failed(name, `could not be checked: ${message}`, "see docs/troubleshooting.md"));
  }
}

/** Loads the settings of one part. Ignores faults of other settings. */
function settingsOf({ flags, env, readFile }: DoctorInput, uses: readonly SettingName[]): LoadResult {
  const known = new Set([
    ...settingNames.flatMap((name) => [variableOf(name), variableOf(`${name}_file`)]),
    configVariable,
  ]);
  const cleaned = Object.fromEntries(
    Object.entries(env).filter(([name]) => !name.startsWith(variablePrefix) || known.has(name)),
  );
  return loadSettings({ env: cleaned, flags, readFile, uses });
}

function examineSettings(input: DoctorInput): Findings {
  const loaded = loadSettings({ ...input, uses: "all", needs: ["gateway_url", "gateway_api_key"] });
  if (!loaded.ok)
    return loaded.problems.map((problem) => failed("settings", problem, "farebox serve --help lists all settings"));
  const given = loaded.inForce.filter(({ from }) => from !== "default").length;
  const file = loaded.file === null ? "" : `, with ${loaded.file}`;
  return ok("settings", `${given} set${file}; all others have their defaults`);
}

async function examineDatabase(settings: Settings, clock: Clock): Promise<Findings> {
  const { database } = settings;
  return database.kind === "sqlite"
    ? await examineFile(database.path, settings, clock.now())
    : await examineServer(database, settings, clock.now());
}

/**
 * Checks that the gateway answers and accepts the key, and that its clock and this machine's agree. Sends one request,
 * or two if the gateway has no account record.
 */
export async function examineGateway(settings: Settings, clock: Clock): Promise<Check[]> {
  const { address, apiKey, silenceMs } = settings.gateway;
  if (address === null) return [skipped("gateway", "FAREBOX_GATEWAY_URL is not set"), judgeClock(clock.now(), null)];
  const { openGateway } = await import("../../server/gateway.ts");
  const baseUrl = address.origin + address.basePath;
  await using gateway = await openGateway(settings, { baseUrl, apiKey: apiKey?.reveal() ?? "none", clock });
  const [wall, start] = [clock.now(), clock.monotonic()];
  const answer = await fetchWhole(gateway, "/account/info", Math.min(silenceMs, personWaitsMsMax));
  const tookMs = clock.monotonic() - start;
  const steppedMs = clock.now() - wall - tookMs;
  const date = answer.ok ? Date.parse(answer.head.header("date") ?? "") : Number.NaN;
  const clockJumped = warning(
    "clock",
    `the clock jumped by ${Math.round(steppedMs)} ms during this check`,
    "configure NTP to slew the clock instead of stepping it",
  );
  const examineKey = async (account: Received): Promise<Check> => {
    if (apiKey === null) return skipped("gateway key", "not set");
    if (account.head.status !== 404) return judgeKey(account, accountFault);
    return judgeKeyByModels(await fetchWhole(gateway, "/v1/models", Math.min(silenceMs, personWaitsMsMax)));
  };
  const proxyText = proxyWords(new URL(baseUrl), settings, ", ");
  const checks = answer.ok
    ? [ok("gateway", `${baseUrl} answers in ${Math.round(tookMs)} ms${proxyText}`), await examineKey(answer)]
    : [
        failed(
          "gateway",
          `${baseUrl} ${describedFailure(answer.failure).details}${answer.failure.kind === "proxy_failed" ? "" : proxyText}`,
          unreachableAdvice(answer.failure),
        ),
        skipped("gateway key", "the gateway does not answer"),
      ];
  return [
    ...checks,
    ...judgePlainProxy(new URL(baseUrl), settings),
    judgeClock(clock.now(), Number.isNaN(date) ? null : date),
    ...(Math.abs(steppedMs) > 1000 ? [clockJumped] : []),
  ];
}

/**
 * Returns words for the end of a sentence about a connection: its proxy, or that NO_PROXY exempts its host. Returns ""
 * if no proxy is set for it. `before`: text before the words.
 */
function proxyWords(url: URL, { outbound }: Pick<Settings, "outbound">, before = " "): string {
  const proxy = proxyChoice(outbound)(url);
  if (proxy !== null) return `${before}via ${shownProxy(proxy)}`;
  const isExempt = proxyChoice({ ...outbound, noProxy: null })(url) !== null;
  return isExempt ? `${before}directly (NO_PROXY exempts it)` : "";
}

/** Warns if a proxy can read the gateway key, because the gateway gets plain http through it. */
function judgePlainProxy(gateway: URL, { outbound }: Settings): Check[] {
  const proxy = proxyChoice(outbound)(gateway);
  if (proxy === null || gateway.protocol === "https:") return [];
  return [
    warning(
      "gateway proxy",
      `the gateway key crosses ${shownProxy(proxy)} unencrypted, with all prompts and answers`,
      "use an https address in FAREBOX_GATEWAY_URL, or exempt the gateway with NO_PROXY",
    ),
  ];
}

type Received = WholeAnswer & { readonly ok: true };

/**
 * Judges the key by the answer to a request for the list of models, for gateways without an account record. Some
 * gateways return the list for any key.
 */
async function judgeKeyByModels(models: WholeAnswer): Promise<Check> {
  const name = "gateway key";
  if (!models.ok)
    return warning(
      name,
      `unknown: at GET /v1/models, the gateway ${describedFailure(models.failure).details}`,
      "try again",
    );
  const judged = await judgeKey(models, listFault);
  return judged.status === "ok"
    ? ok(
        name,
        "the gateway lists its models; there is no account record (404), so balance and reconciliation are unavailable",
      )
    : judged;
}

/** Returns the error in a list of models, or `no_record` if the answer is no list; undefined if it may be one. */
function listFault(answer: unknown): ReturnType<typeof accountFault> {
  return readStatedError(answer, true) ?? (isObject(answer) ? undefined : "no_record");
}

async function judgeKey(answer: Received, faultOf: typeof accountFault): Promise<Check> {
  const name = "gateway key";
  const { head, bytes } = answer;
  const received = head.status;
  const fault = received === 200 ? faultOf(parseJson(bytes.toString("utf8"))) : undefined;
  if (fault === "no_record")
    return failed(
      name,
      "the answer is not an account record",
      "check that FAREBOX_GATEWAY_URL is the address of the gateway's API",
    );
  const status = fault?.status ?? received;
  if (fault === undefined && status === 200) return ok(name, "the gateway accepts it");
  if (status === 403 || (await isKeyRefused(answer, faultOf)))
    return failed(name, `the gateway refuses the key of this proxy (${status})`, "check FAREBOX_GATEWAY_API_KEY");
  if (status === 404)
    return failed(
      name,
      "there is neither an account record nor a list of models (404)",
      "check that FAREBOX_GATEWAY_URL is the address of the gateway's API; a /v1 at its end is optional",
    );
  if (fault !== undefined)
    return failed(
      name,
      `the gateway answered with an error (${fault.reason})`,
      "check FAREBOX_GATEWAY_API_KEY; if it is right, ask the gateway's support",
    );
  return warning(
    name,
    `unknown: the gateway answered with status ${status}`,
    "try again; if it persists, ask the gateway's support",
  );
}

function unreachableAdvice(failure: WholeFailure): string {
  if (failure.kind === "redirect") return "set FAREBOX_GATEWAY_URL to the address that the gateway redirects to";
  if (failure.kind === "proxy_failed")
    return "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and whether the proxy permits CONNECT to the gateway's port";
  const message = failure.kind === "unreachable" || failure.kind === "reset" ? failure.message : "";
  if (/ENOTFOUND|EAI_AGAIN/.test(message)) return "check the host name in FAREBOX_GATEWAY_URL and this machine's DNS";
  if (/ECONNREFUSED/.test(message)) return "check the port in FAREBOX_GATEWAY_URL, and whether the gateway runs";
  if (/certificate|self.signed|altname|issuer/i.test(message))
    return "check the certificate; NODE_EXTRA_CA_CERTS can name a file with more certificate authorities";
  if (/EPROTO|SSL|TLS|wrong version/i.test(message))
    return "check whether FAREBOX_GATEWAY_URL must begin with https or http";
  return "check FAREBOX_GATEWAY_URL, the network and firewalls";
}

async function examinePrices(settings: Settings, clock: Clock): Promise<Findings> {
  const [{ loadCatalogue, readPriceFolder }, { formatFault }] = await Promise.all([
    import("../../catalogue/load.ts"),
    import("../../core/fault.ts"),
  ]);
  const loaded = await loadCatalogue(priceFolders(settings.pricing));
  const { folder, preset } = settings.pricing;
  if (loaded.ok) {
    const isEmpty = folder !== null && (await readPriceFolder(folder, folder)).texts.length === 0;
    return [
      judgePrices(loaded.catalogue, preset, clock.now()),
      ...(isEmpty
        ? [
            warning(
              "prices",
              `no file in ${folder} ends with .yaml or .yml`,
              "add or rename files, or unset FAREBOX_PRICING",
            ),
          ]
        : []),
    ];
  }
  return loaded.faults.map((fault) =>
    failed("prices", formatFault(fault), "fix the file, then run farebox prices check"),
  );
}

/** Connects to the webhook but sends no request, because the receiver would mistake a request for an alert. */
async function examineWebhook(settings: Settings, clock: Clock): Promise<Findings> {
  const { webhook, secret } = settings.alerts;
  const name = "alert webhook";
  if (webhook === null) return [];
  const { probeWebhook } = await import("../../gateway/webhooks/probe.ts");
  const choose = proxyChoice(settings.outbound);
  const problem = await probeWebhook(webhook.reveal(), "administrator", { choose, clock });
  const proxyText = proxyWords(new URL(webhook.reveal()), settings);
  if (problem === null)
    return ok(name, `the receiver can be reached${proxyText}; alerts are ${secret === null ? "not signed" : "signed"}`);
  // The proxy gets only checked addresses, so Farebox resolves the name itself.
  const resolves = /^(?:ENOTFOUND|EAI_AGAIN)$/.test(problem) ? "this machine's DNS" : "the network and firewalls";
  return warning(
    name,
    `the receiver cannot be reached${proxyText}: ${problem}`,
    `check FAREBOX_ALERT_WEBHOOK, and ${resolves}; an alert is retried for a day`,
  );
}

/**
 * Judges the text of the public address: whether the gateway can reach it, and whether callbacks would be encrypted.
 * Connects to nothing.
 */
export function judgePublicUrl(publicUrl: string | null, gatewayOrigin: string | null): Findings {
  const name = "public address";
  if (publicUrl === null) return [];
  const isOwn = isLoopbackHost(new URL(publicUrl).hostname);
  if (isOwn && gatewayOrigin !== null && !isLoopbackHost(new URL(gatewayOrigin).hostname))
    return warning(
      name,
      `${publicUrl} is a loopback address, which the gateway cannot reach`,
      "set FAREBOX_PUBLIC_URL to an address that the gateway can reach",
    );
  if (!isOwn && publicUrl.startsWith("http:"))
    return warning(
      name,
      `callbacks to ${publicUrl} are not encrypted; they contain the results of tasks`,
      "set FAREBOX_PUBLIC_URL to an https:// address",
    );
  return ok(name, `the gateway sends callbacks to ${publicUrl}`);
}

/** States the proxy for webhooks of tasks. The receivers are unknown until clients name them. */
function judgeTaskWebhooks({ listen, outbound }: Settings): Check[] {
  if (listen.publicUrl === null || outbound.https === null) return [];
  const proxy = proxyChoice(outbound)(anyReceiver);
  const exception = outbound.noProxy === null ? "" : ", except to hosts in NO_PROXY";
  const way = proxy === null ? "directly (NO_PROXY exempts all hosts)" : `via ${shownProxy(proxy)}${exception}`;
  return [ok("task webhooks", `they are sent ${way}`)];
}

/** Checks the permissions of the files that the settings name. */
function examineFiles(input: DoctorInput): Findings {
  const database = settingsOf(input, ledgerSettings);
  const pricing = settingsOf(input, ["pricing"]);
  return examinePermissions({
    database: database.ok ? ledgerFile(database.settings.database) : null,
    pricing: pricing.ok ? pricing.settings.pricing.folder : null,
    secrets: secretFiles(input),
  });
}

/**
 * Lists files that contain a secret: the files that `_FILE` settings name, and the settings file if it has a secret.
 */
function secretFiles({ env, readFile }: DoctorInput): string[] {
  const file = fileSource(env, readFile);
  const secrets = settingNames.filter((name) => settingOf(name).kind.secret);
  const named = [environmentSource(env), file.source].flatMap((source) =>
    secrets.map((name) => source.get(`${name}_file`)),
  );
  const inFile = secrets.some((name) => file.source.get(name) !== undefined);
  return [...named, inFile ? file.path : undefined].filter((path) => typeof path === "string");
}

/** Checks that the port is free or that Farebox already listens on it. */
async function examinePort({ listen: { host, port } }: Settings): Promise<Findings> {
  if (port === 0) return ok("port", "any free port (0)");
  const place = `${bracketed(host)}:${port}`;
  const problem = await listenErrorOf(host, port);
  if (problem === null) return ok("port", `${place} is free`);
  if (problem !== "EADDRINUSE") {
    const advice = problem === "EACCES" ? "choose a port above 1023" : "set FAREBOX_HOST to another address";
    return failed("port", `this user cannot listen on ${place} (${problem})`, advice);
  }
  if (await isFarebox(`${localUrl(host, port)}/healthz`)) return ok("port", `a farebox listens on ${place}`);
  return failed(
    "port",
    `another program listens on ${place}`,
    "stop it, or set FAREBOX_PORT to another port (0 picks a free one)",
  );
}

/** Returns null if this process can listen at the address; otherwise the error's code. */
function listenErrorOf(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

async function isFarebox(address: string): Promise<boolean> {
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(portAnswerMsMax) });
    await answer.body?.cancel();
    return answer.headers.has("x-farebox-request-id");
  } catch {
    return false;
  }
}
