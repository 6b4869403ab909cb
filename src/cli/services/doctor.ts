import { createServer } from "node:net";
import { availableParallelism } from "node:os";
import { ledgerFile } from "../../config/database.ts";
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
import { fetchWhole, type WholeAnswer } from "../../request/fetch-whole.ts";
import type { WholeFailure } from "../../request/gateway-failure.ts";
import { hostOf, isLoopback } from "../../config/addresses.ts";
import {
  failed,
  judgeClock,
  judgePrices,
  judgeWorkers,
  ok,
  skipped,
  warning,
  type Check,
} from "../../reporting/doctor.ts";
import { isTimeZone } from "../../platform/clock.ts";
import { isObject, parseJson } from "../../wire/json.ts";
import { workerCount } from "../../server/workers/settings.ts";
import { examineFile, examinePermissions } from "./doctor-files.ts";
import { examineServer } from "./doctor-server.ts";
import { shippedPrices } from "../../server/package.ts";

/** Longest wait for the gateway's answer, in milliseconds. Short, because a person waits for it. */
const gatewayPatienceMs = 15_000;
const portPatienceMs = 2_000;

/** The settings that `doctor` was started with. */
interface DoctorInput {
  readonly flags: Flags;
  readonly env: Environment;
  readonly readFile: ReadFile;
}

type Report = (check: Check) => void;

/** Checks everything that `serve` needs, in order. A failed check does not stop the others. */
export async function examine(subject: DoctorInput, clock: Clock, report: Report): Promise<void> {
  await guarded("settings", report, async () => await examineSettings(subject));
  await within(
    subject,
    ["gateway_url", "gateway_insecure", "gateway_api_key", "gateway_timeout"],
    "gateway",
    report,
    (settings) => examineGateway(settings, clock),
  );
  await within(subject, ["database", "time_zone"], "database", report, (settings) =>
    examineDatabase(settings, clock.now()),
  );
  await within(subject, ["pricing"], "prices", report, (settings) => examinePrices(settings, clock.now()));
  await guarded("permissions", report, async () => {
    const database = settingsOf(subject, ["database", "time_zone"]);
    const pricing = settingsOf(subject, ["pricing"]);
    return examinePermissions({
      database: database.ok ? ledgerFile(database.settings.database) : null,
      pricing: pricing.ok ? pricing.settings.pricing.folder : null,
      secrets: secretFiles(subject),
    });
  });
  await within(subject, ["alert_webhook", "alert_secret"], "alert webhook", report, examineWebhook);
  await within(
    subject,
    ["public_url", "gateway_url", "gateway_insecure"],
    "public address",
    report,
    async ({ listen, gateway }) => judgePublicUrl(listen.publicUrl, gateway.address?.origin ?? null),
  );
  await within(subject, ["host", "port"], "port", report, examinePort);
  await within(subject, ["workers"], "workers", report, async (settings) =>
    judgeWorkers(workerCount(settings), availableParallelism()),
  );
}

/** Reports the checks of one part. Reports the error if the part throws. */
async function guarded(name: string, report: Report, part: () => Promise<Check[]>): Promise<void> {
  try {
    for (const check of await part()) report(check);
  } catch (error) {
    const message = error instanceof Error ? error.message.split("\n")[0] : String(error);
    report(failed(name, `could not be checked: ${message}`, "see docs/troubleshooting.md"));
  }
}

async function within(
  subject: DoctorInput,
  uses: readonly SettingName[],
  name: string,
  report: Report,
  part: (settings: Settings) => Promise<Check[]>,
): Promise<void> {
  await guarded(name, report, async () => {
    const loaded = settingsOf(subject, uses);
    return loaded.ok ? await part(loaded.settings) : [skipped(name, "its settings come first")];
  });
}

/** Loads the settings of one part, even if other settings are wrong. */
function settingsOf({ flags, env, readFile }: DoctorInput, uses: readonly SettingName[]): LoadResult {
  const known = new Set([
    ...settingNames.flatMap((name) => [variableOf(name), variableOf(`${name}_file`)]),
    configVariable,
  ]);
  const cleaned = Object.fromEntries(
    Object.entries(env).filter(([name]) => !name.startsWith(variablePrefix) || known.has(name)),
  );
  return loadSettings({ env: cleaned, flags, readFile, isTimeZone, uses });
}

async function examineSettings({ flags, env, readFile }: DoctorInput): Promise<Check[]> {
  const loaded = loadSettings({
    env,
    flags,
    readFile,
    isTimeZone,
    uses: "all",
    needs: ["gateway_url", "gateway_api_key"],
  });
  if (!loaded.ok)
    return loaded.problems.map((problem) => failed("settings", problem, "farebox serve --help lists what may be set"));
  const given = loaded.inForce.filter(({ from }) => from !== "default").length;
  return [
    ok("settings", `${given} given${loaded.file === null ? "" : `, with ${loaded.file}`}, the others are defaults`),
  ];
}

async function examineDatabase(settings: Settings, now: number): Promise<Check[]> {
  const { database } = settings;
  return database.kind === "sqlite"
    ? await examineFile(database.path, settings, now)
    : await examineServer(database, settings, now);
}

/** Sends one request to check that the gateway answers and accepts the key, and that both clocks agree. */
async function examineGateway(
  { gateway: { address, apiKey, silenceMs, engine } }: Settings,
  clock: Clock,
): Promise<Check[]> {
  if (address === null) return [skipped("gateway", "its address is not set"), judgeClock(clock.now(), null)];
  const { createGateway } = await import("../../gateway/gateway.ts");
  const baseUrl = address.origin + address.basePath;
  await using gateway = createGateway(engine, { baseUrl, apiKey: apiKey?.reveal() ?? "none", clock });
  const [wall, start] = [clock.now(), clock.monotonic()];
  const answer = await fetchWhole(gateway, "/account/info", Math.min(silenceMs, gatewayPatienceMs));
  const tookMs = clock.monotonic() - start;
  const steppedMs = clock.now() - wall - tookMs;
  const examineKey = async (account: Received): Promise<Check> => {
    if (apiKey === null) return skipped("gateway key", "not set");
    if (account.head.status !== 404) return judgeKey(account);
    return judgeKeyByModels(await fetchWhole(gateway, "/v1/models", Math.min(silenceMs, gatewayPatienceMs)));
  };
  const checks = answer.ok
    ? [ok("gateway", `${baseUrl} answers in ${Math.round(tookMs)} ms`), await examineKey(answer)]
    : [
        failed("gateway", `${baseUrl} ${unreachable(answer.failure)}`, unreachableAdvice(answer.failure)),
        skipped("gateway key", "needs the gateway"),
      ];
  const date = answer.ok ? Date.parse(answer.head.header("date") ?? "") : Number.NaN;
  return [
    ...checks,
    judgeClock(clock.now(), Number.isNaN(date) ? null : date),
    ...(Math.abs(steppedMs) > 1000
      ? [
          warning(
            "clock",
            `it was set by ${Math.round(steppedMs)} ms meanwhile`,
            "let NTP slew it instead of stepping it",
          ),
        ]
      : []),
  ];
}

type Received = WholeAnswer & { readonly ok: true };

/** Checks the key by the list of models, for gateways without an account record. Some gateways return the list for any key. */
function judgeKeyByModels(models: WholeAnswer): Check {
  const name = "gateway key";
  if (!models.ok)
    return warning(name, `not known: asked for its models, the gateway ${unreachable(models.failure)}`, "try again");
  const judged = judgeKey(models);
  return judged.status === "ok"
    ? ok(
        name,
        "the gateway lists its models for it; there is no account record (404), so no balance and no reconciliation",
      )
    : judged;
}

function judgeKey({ head: { status }, bytes }: Received): Check {
  const name = "gateway key";
  if (status === 200 && isObject(parseJson(bytes.toString("utf8")))) return ok(name, "the gateway accepts it");
  if (status === 200)
    return failed(
      name,
      "the answer is no account record",
      "FAREBOX_GATEWAY_URL seems to name something else than the gateway's API",
    );
  if (status === 401 || status === 403)
    return failed(name, `the gateway does not accept it (${status})`, "check FAREBOX_GATEWAY_API_KEY");
  if (status === 404)
    return failed(
      name,
      "there is no account record (404)",
      "check the path in FAREBOX_GATEWAY_URL; it may end in /v1 or before it",
    );
  return warning(
    name,
    `not known: the gateway answered with status ${status}`,
    "try again; if it persists, ask the gateway's support",
  );
}

function unreachable(failure: WholeFailure): string {
  switch (failure.kind) {
    case "unreachable":
      return `cannot be reached: ${failure.message || "no connection"}`;
    case "silent":
      return `did not answer within ${Math.round(failure.timeoutMs / 1000)} s`;
    case "reset":
      return `broke the connection off: ${failure.message}`;
    case "redirect":
      return "redirects to another address";
    case "too_large":
      return "sent an answer that is too large";
  }
}

function unreachableAdvice(failure: WholeFailure): string {
  if (failure.kind === "redirect") return "FAREBOX_GATEWAY_URL should name the address that it redirects to";
  const message = failure.kind === "unreachable" || failure.kind === "reset" ? failure.message : "";
  if (/ENOTFOUND|EAI_AGAIN/.test(message)) return "check the name in FAREBOX_GATEWAY_URL, and this machine's DNS";
  if (/ECONNREFUSED/.test(message)) return "check the port in FAREBOX_GATEWAY_URL, and whether the gateway runs";
  if (/certificate|self.signed|altname|issuer/i.test(message))
    return "check the certificate; NODE_EXTRA_CA_CERTS names a file with further authorities";
  if (/EPROTO|SSL|TLS|wrong version/i.test(message)) return "check whether it is https or http in FAREBOX_GATEWAY_URL";
  return "check FAREBOX_GATEWAY_URL, the network and a firewall between";
}

async function examinePrices(settings: Settings, now: number): Promise<Check[]> {
  const [{ loadCatalogue }, { formatFault }] = await Promise.all([
    import("../../catalogue/load.ts"),
    import("../../core/fault.ts"),
  ]);
  const loaded = await loadCatalogue({ shipped: shippedPrices, user: settings.pricing.folder ?? undefined });
  if (loaded.ok) return [judgePrices(loaded.catalogue, now)];
  return loaded.faults.map((fault) =>
    failed("prices", formatFault(fault), "fix the file; farebox prices check reads it again"),
  );
}

/** Connects to the webhook without a request, because the receiver would take a request for an alert. */
async function examineWebhook({ alerts: { webhook, secret } }: Settings): Promise<Check[]> {
  const name = "alert webhook";
  if (webhook === null) return [];
  const { probeWebhook } = await import("../../gateway/webhooks/probe.ts");
  const problem = await probeWebhook(webhook.reveal(), "administrator");
  if (problem === null)
    return [ok(name, `its receiver can be reached; alerts go ${secret === null ? "unsigned" : "signed"}`)];
  return [
    warning(
      name,
      `its receiver cannot be reached: ${problem}`,
      "check FAREBOX_ALERT_WEBHOOK, the network and a firewall between; alerts are tried for a day",
    ),
  ];
}

/** Checks the public address by its text only: the gateway's callbacks must be able to reach it. */
export function judgePublicUrl(publicUrl: string | null, gatewayOrigin: string | null): Check[] {
  const name = "public address";
  if (publicUrl === null) return [];
  const isOwn = isLoopback(hostOf(publicUrl));
  if (isOwn && gatewayOrigin !== null && !isLoopback(hostOf(gatewayOrigin))) {
    return [
      warning(
        name,
        `${publicUrl} is this machine, where the gateway cannot reach it`,
        "set FAREBOX_PUBLIC_URL to the address that leads here from outside",
      ),
    ];
  }
  if (!isOwn && publicUrl.startsWith("http:")) {
    return [
      warning(
        name,
        `callbacks to ${publicUrl} would arrive unencrypted, with the results of tasks`,
        "let FAREBOX_PUBLIC_URL begin with https://",
      ),
    ];
  }
  return [ok(name, `the gateway's callbacks come to ${publicUrl}`)];
}

/** Lists files that hold a secret: those that `_FILE` settings name, and the settings file if it contains a secret. */
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
async function examinePort({ listen: { host, port } }: Settings): Promise<Check[]> {
  if (port === 0) return [ok("port", "any free one (0)")];
  const shownHost = host.includes(":") ? `[${host}]` : host;
  const place = `${shownHost}:${port}`;
  const free = await canListen(host, port);
  if (free === null) return [ok("port", `${place} is free`)];
  if (free !== "EADDRINUSE") {
    const advice = free === "EACCES" ? "choose a port above 1023" : "choose another FAREBOX_HOST";
    return [failed("port", `this user cannot listen on ${place} (${free})`, advice)];
  }
  const probe = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "[::1]" : shownHost;
  if (await isFarebox(`http://${probe}:${port}/healthz`)) return [ok("port", `a farebox listens on ${place}`)];
  return [
    failed(
      "port",
      `another program listens on ${place}`,
      "end it, or choose another FAREBOX_PORT (0 picks a free one)",
    ),
  ];
}

/** Returns null if this process can listen at the address; otherwise the error's code. */
function canListen(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

async function isFarebox(address: string): Promise<boolean> {
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(portPatienceMs) });
    await answer.body?.cancel();
    return answer.headers.has("x-farebox-request-id");
  } catch {
    return false;
  }
}
