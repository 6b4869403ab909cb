import { outputCapMax } from "../core/bounds.ts";
import {
  bytes,
  choice,
  database,
  duration,
  gatewayAddress,
  host,
  origins,
  path,
  port,
  publicAddress,
  secret,
  signingSecret,
  timeZone,
  usdAmount,
  webhookAddress,
  wholeNumber,
  workerCount,
  yesNo,
  type Kind,
} from "./kinds.ts";

/** Setting of Farebox. Its key is its name in farebox.yaml; `variableOf` and `flagOf` return the other two names. */
export interface Setting<T = unknown> {
  readonly kind: Kind<T>;
  /** Default as it would be written; null for none. */
  readonly default: string | null;
  /** Description in one line, for `--help` and docs/settings.md. */
  readonly meaning: string;
  /** Page in docs/ with details, including its anchor. */
  readonly page?: string;
}

/** Every setting, in the order of the documents. */
export const settingsTable = {
  gateway_url: {
    kind: gatewayAddress,
    default: null,
    meaning: "base address of the gateway, with or without /v1",
  },
  gateway_insecure: {
    kind: yesNo,
    default: "0",
    meaning: "1 permits plain http to a gateway that is not on this machine",
  },
  gateway_api_key: { kind: secret, default: null, meaning: "the gateway key" },
  host: { kind: host, default: "127.0.0.1", meaning: "where to listen" },
  port: { kind: port, default: "4000", meaning: "where to listen; 0 picks a free one" },
  workers: {
    kind: workerCount,
    default: "1",
    meaning: "processes that answer requests; auto for one for each core of this machine",
    page: "scaling.md#workers",
  },
  database: {
    kind: database,
    default: "farebox.db",
    meaning: "the ledger: path of an SQLite file, or a postgres:// address for several proxies",
    page: "postgresql.md",
  },
  auth: {
    kind: choice(["keys", "open"]),
    default: "keys",
    meaning: "keys: an internal key is required; open: none is, only when listening on loopback",
  },
  admin_token: {
    kind: secret,
    default: null,
    meaning: "a first editor token for /admin/v1 and the dashboard; more with farebox admins create",
    page: "admin-api.md#tokens",
  },
  pricing: {
    kind: path,
    default: null,
    meaning: "folder of price files read after the shipped ones; serve applies changes while it runs",
    page: "prices.md#prices-of-your-own",
  },
  unpriced: {
    kind: choice(["record", "refuse"]),
    default: "record",
    meaning:
      "a model with no price: record forwards with cost null, refuse answers 400; under a hard budget it is always refused",
  },
  unknown_fields: {
    kind: choice(["hold", "refuse"]),
    default: "hold",
    meaning:
      "a request field, header or query parameter that Farebox does not know: hold holds the model's whole context, refuse answers 400",
    page: "endpoints.md#fields-that-change-the-price",
  },
  tool_calls: {
    kind: wholeNumber(0, 1000),
    default: "4",
    meaning:
      "calls of hosted tools that are held for under a hard budget, and written into requests that state no max_tool_calls; 0 refuses them",
    page: "endpoints.md#hosted-tools",
  },
  output_cap: {
    kind: wholeNumber(1, outputCapMax),
    default: null,
    meaning: "most output tokens for each choice of a request; written into text requests that state no maximum",
    page: "endpoints.md#output-caps",
  },
  fit: {
    kind: choice(["on", "off"]),
    default: "on",
    meaning:
      "on: a text request without a maximum that does not fit its hard budget gets a maximum that does; off: it is refused",
    page: "endpoints.md#requests-that-are-fitted-to-their-budget",
  },
  fit_min: {
    kind: wholeNumber(1, 1_000_000),
    default: "8192",
    meaning: "least such maximum for requests with tools or a JSON format, and for models that reason unseen",
  },
  passthrough: {
    kind: choice(["known", "all"]),
    default: "known",
    meaning:
      "known: the documented paths; all: every path of the gateway for every key, unpriced where nothing is known",
    page: "endpoints.md#every-other-path",
  },
  account_info: {
    kind: choice(["full", "balance", "admin"]),
    default: "full",
    meaning: "what an internal key sees at /account/info: everything, balance and credits, or nothing",
  },
  balance_ttl: { kind: duration("1s", "1d"), default: "60s", meaning: "freshness of the account record" },
  balance_floor: { kind: usdAmount, default: null, meaning: "USD under which nothing is forwarded (503)" },
  alert_webhook: {
    kind: webhookAddress,
    default: null,
    meaning: "where alerts are sent; https, or http to this machine",
    page: "alerts.md",
  },
  alert_secret: {
    kind: signingSecret,
    default: null,
    meaning: "secret that signs alerts; without one they are unsigned",
    page: "alerts.md#verify-the-signature",
  },
  alert_balance: {
    kind: usdAmount,
    default: null,
    meaning: "USD of balance under which to alert; FAREBOX_BALANCE_FLOOR unless given",
  },
  alert_hours_left: {
    kind: wholeNumber(0, 8760),
    default: "24",
    meaning: "alert when the balance lasts for less than this many hours; 0 for never",
  },
  alert_pending: { kind: duration("1m"), default: "2h", meaning: "age of an unsettled charge at which to alert" },
  body_limit: { kind: bytes("1kb", "1gb"), default: "32mb", meaning: "one request's body; 413 beyond" },
  body_memory: { kind: bytes("1kb", "64gb"), default: "256mb", meaning: "all bodies held at once; 503 beyond" },
  gateway_timeout: { kind: duration("1s"), default: "10m", meaning: "silence from the gateway" },
  stream_limit: { kind: duration("1s"), default: "1h", meaning: "a stream's whole length" },
  engine: {
    kind: choice(["http-proxy-middleware", "undici"]),
    default: "http-proxy-middleware",
    meaning: "engine that sends requests to the gateway; undici needs less CPU, most of all for streams",
    page: "decisions/0006-two-engines.md",
  },
  drain: {
    kind: duration("0s", "1d"),
    default: "30s",
    meaning: "how long running requests may still take after SIGTERM",
  },
  time_zone: {
    kind: timeZone,
    default: "UTC",
    meaning: "IANA zone of budget windows and days; a change rebuilds the current windows from the charges",
  },
  stream_usage: {
    kind: choice(["auto", "pass", "inject"]),
    default: "auto",
    meaning:
      "auto: ask the gateway for stream usage where the client did not; inject: even where it refuses; pass: never",
    page: "guarantees.md#how-an-amount-is-known",
  },
  stream_slice: {
    kind: wholeNumber(64, 1_000_000),
    default: "1024",
    meaning: "output tokens that a stream without a stated maximum holds at first under a hard budget, and grows by",
    page: "guarantees.md#streams-that-grow-their-hold",
  },
  public_url: {
    kind: publicAddress,
    default: null,
    meaning: "own address as the gateway reaches it; turns the webhook relay on",
    page: "webhooks.md",
  },
  webhook_private: {
    kind: yesNo,
    default: "0",
    meaning: "1 permits webhooks of tasks to private addresses, and over plain http to this machine",
    page: "webhooks.md#allowed-addresses",
  },
  task_ceilings: {
    kind: choice(["off", "enforce"]),
    default: "off",
    meaning: "enforce: a task beyond the account's ceilings is refused with 429 instead of failing at the gateway",
    page: "webhooks.md#task-ceilings",
  },
  metrics_token: {
    kind: secret,
    default: null,
    meaning: "bearer token for /metrics; without one, only this machine is answered",
    page: "metrics.md",
  },
  metrics_keys: {
    kind: wholeNumber(0, 100_000),
    default: "1000",
    meaning: "how many keys are named in metrics before `other`",
    page: "metrics.md#labels",
  },
  metrics_otel: {
    kind: yesNo,
    default: "0",
    meaning: "1 shows OpenTelemetry's gen_ai metrics in addition to Farebox's own",
    page: "metrics.md#opentelemetry-metrics",
  },
  cors_origins: {
    kind: origins,
    default: null,
    meaning: "browser origins that may call; other cross-site requests of browsers get 403",
  },
  log_level: {
    kind: choice(["trace", "debug", "info", "warn", "error", "fatal", "silent"]),
    default: "info",
    meaning: "the least severe event that is logged",
  },
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof settingsTable;

/** Value of each setting by its name; null if it has no default and is not given. */
export type SettingValues = {
  readonly [N in SettingName]: (typeof settingsTable)[N] extends { kind: Kind<infer T>; default: infer D }
    ? D extends null
      ? T | null
      : T
    : never;
};

export const settingNames = Object.keys(settingsTable) as SettingName[];

/** Returns the table's entry without the type of its kind. */
export function settingOf(name: SettingName): Setting {
  return settingsTable[name];
}

export const variablePrefix = "FAREBOX_";

/** Variable that names the settings file. It is not itself a setting. */
export const configVariable = "FAREBOX_CONFIG";

/** Returns a setting's environment variable: "FAREBOX_GATEWAY_URL". */
export function variableOf(name: string): string {
  return variablePrefix + name.toUpperCase();
}

/** Returns a setting's flag: "--gateway-url". */
export function flagOf(name: string): string {
  return `--${name.replaceAll("_", "-")}`;
}
