import { outputCapMax } from "../core/bounds.ts";
import { ownViews } from "../core/budget.ts";
import { hostedToolPolicies, userModes } from "../core/keys.ts";
import { presets } from "../core/price.ts";
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
  tagHeaders,
  timeZone,
  usdAmount,
  webhookAddress,
  wholeNumber,
  workerCount,
  yesNo,
  type Kind,
} from "./kinds.ts";

/**
 * Setting of Farebox. Its key in the table is its name in farebox.yaml; `variableOf` and `flagOf` return the other two
 * names.
 */
interface Setting<T = unknown> {
  readonly kind: Kind<T>;
  /** Default, as a user would write it. A setting without a default is null if it is not given. */
  readonly default?: string;
  /** Description in one line, for `--help` and docs/settings.md. */
  readonly meaning: string;
  /** Page in docs/ with details, including its anchor. */
  readonly page?: string;
}

/** Every setting, in the order of the documents. */
export const settingsTable = {
  gateway_url: {
    kind: gatewayAddress,
    meaning: "base address of the gateway, with or without /v1",
  },
  gateway_insecure: {
    kind: yesNo,
    default: "0",
    meaning: "1 permits plain http to a gateway that is not on this machine",
  },
  gateway_api_key: { kind: secret, meaning: "the gateway key" },
  host: { kind: host, default: "127.0.0.1", meaning: "address to listen on" },
  port: { kind: port, default: "4000", meaning: "port to listen on; 0 picks a free port" },
  workers: {
    kind: workerCount,
    default: "1",
    meaning: "number of processes that answer requests; auto uses one for each core of this machine",
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
    meaning:
      "keys: requests need an internal key; open: requests need no key, allowed only if Farebox listens on loopback",
  },
  admin_token: {
    kind: secret,
    meaning: "admin token with the role editor, for /admin/v1 and the dashboard; farebox admins create adds others",
    page: "admin-api.md#tokens",
  },
  pricing: {
    kind: path,
    meaning: "folder of price files read after the shipped ones; serve applies changes while it runs",
    page: "prices.md#prices-of-your-own",
  },
  preset: {
    kind: choice(presets),
    default: "piapi",
    meaning:
      "what the gateway charges for shipped models that your price files do not change; piapi: the published shares of that gateway; official: the official prices",
    page: "prices.md#presets",
  },
  unpriced: {
    kind: choice(["record", "refuse"]),
    default: "record",
    meaning:
      "record: requests to a model without a price are forwarded with cost null; refuse: they get 400; hard budgets always refuse them",
  },
  unknown_fields: {
    kind: choice(["hold", "refuse"]),
    default: "hold",
    meaning:
      "hold: a request with an unknown field, header or query parameter holds the cost of the model's whole context; refuse: it gets 400",
    page: "endpoints.md#fields-that-change-the-price",
  },
  tool_calls: {
    kind: wholeNumber(0, 1000),
    default: "4",
    meaning:
      "max_tool_calls that Farebox writes into requests with hosted tools that state none, if a hard budget applies; 0 refuses them",
    page: "endpoints.md#hosted-tools",
  },
  hosted_tools: {
    kind: choice(hostedToolPolicies),
    default: "refuse",
    meaning:
      "hosted tools that nothing bounds, in requests under a hard budget; refuse: the request gets 400; remove: it is sent without the tools; allow: it passes and may cost more than its hold; keys and teams can have their own policy",
    page: "endpoints.md#hosted-tools-that-nothing-bounds",
  },
  output_cap: {
    kind: wholeNumber(1, outputCapMax),
    meaning:
      "largest number of output tokens for each choice of a request; written into text requests that state no maximum",
    page: "endpoints.md#output-caps",
  },
  fit: {
    kind: choice(["on", "off"]),
    default: "on",
    meaning:
      "on: a text request that states no maximum and does not fit its hard budget gets a maximum that fits; off: it is refused",
    page: "endpoints.md#requests-that-are-fitted-to-their-budget",
  },
  fit_min: {
    kind: wholeNumber(1, 1_000_000),
    default: "8192",
    meaning:
      "smallest maximum that FAREBOX_FIT writes into requests with tools, with a JSON format, or to a model with hidden reasoning",
  },
  passthrough: {
    kind: choice(["known", "all"]),
    default: "known",
    meaning:
      "known: only documented paths are forwarded; all: every key may use every path of the gateway, unknown ones without a price",
    page: "endpoints.md#every-other-path",
  },
  account_info: {
    kind: choice(["full", "balance", "admin"]),
    default: "full",
    meaning:
      "what an internal key sees at /account/info; full: everything; balance: balance and credits; admin: nothing",
  },
  own_view: {
    kind: choice(ownViews),
    default: "own",
    meaning:
      "budgets whose amounts a key sees; own: budgets that limit only this key; all: also budgets that it shares with other keys",
    page: "budgets.md#shared-budgets",
  },
  users: {
    kind: choice(userModes),
    default: "plain",
    meaning:
      "users that requests name; plain: stored with their charges; hash: stored as a keyed digest; off: neither read nor stored",
    page: "teams.md#users",
  },
  tag_headers: {
    kind: tagHeaders,
    default:
      "x-claude-code-session-id=agent_session,x-claude-code-agent-id=agent,x-claude-code-parent-agent-id=parent_agent,session-id=agent_session,thread-id=agent,x-codex-parent-thread-id=parent_agent",
    meaning:
      "headers of agents whose values become tags, the first one with a value winning; by default those of Claude Code and Codex; off: none",
    page: "export.md#tags-of-agents",
  },
  balance_ttl: {
    kind: duration("1s", "1d"),
    default: "60s",
    meaning: "longest time for which the account record is cached",
  },
  balance_floor: { kind: usdAmount, meaning: "balance in USD below which nothing is forwarded (503)" },
  alert_webhook: {
    kind: webhookAddress,
    meaning: "address to which alerts are sent; https, or http to this machine",
    page: "alerts.md",
  },
  alert_secret: {
    kind: signingSecret,
    meaning: "secret that signs alerts; without it, alerts are not signed",
    page: "alerts.md#verify-the-signature",
  },
  alert_balance: {
    kind: usdAmount,
    meaning: "balance in USD below which an alert is sent; without it, FAREBOX_BALANCE_FLOOR applies",
  },
  alert_hours_left: {
    kind: wholeNumber(0, 8760),
    default: "24",
    meaning: "an alert is sent if the balance lasts for less than this number of hours; 0 for never",
  },
  alert_pending: {
    kind: duration("1m"),
    default: "2h",
    meaning: "age of an unsettled charge at which an alert is sent",
  },
  body_limit: {
    kind: bytes("1kb", "1gb"),
    default: "32mb",
    meaning: "largest body of a request, such as an uploaded file, also after it is decoded; a larger one gets 413",
    page: "endpoints.md#uploads",
  },
  body_memory: {
    kind: bytes("1kb", "64gb"),
    default: "256mb",
    meaning: "memory for all request bodies together; requests beyond it wait 5 s, then get 503",
  },
  gateway_timeout: {
    kind: duration("1s"),
    default: "10m",
    meaning: "longest time without a byte from the gateway; then 504",
  },
  stream_limit: { kind: duration("1s"), default: "1h", meaning: "longest duration of a stream" },
  engine: {
    kind: choice(["http-proxy-middleware", "undici"]),
    default: "http-proxy-middleware",
    meaning: "engine that sends requests to the gateway; undici needs less CPU, most of all for streams",
    page: "decisions/0006-two-engines.md",
  },
  drain: {
    kind: duration("0s", "1d"),
    default: "30s",
    meaning: "time for requests in flight to end after SIGTERM",
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
      "auto: ask the gateway for stream usage if the client did not; inject: ask even if the gateway refuses; pass: never ask",
    page: "guarantees.md#how-an-amount-is-known",
  },
  stream_slice: {
    kind: wholeNumber(64, 1_000_000),
    default: "1024",
    meaning: "output tokens that a stream holds at a time under a hard budget, if the request states no maximum",
    page: "guarantees.md#streams-that-grow-their-hold",
  },
  public_url: {
    kind: publicAddress,
    meaning: "address at which the gateway reaches this proxy; turns the webhook relay on",
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
  subjects_max: {
    kind: wholeNumber(1, 1_000_000_000),
    default: "10000",
    meaning: "number of new users, tag values and models that one key can name in a day under `each-…` budgets",
    page: "budgets.md",
  },
  metrics_token: {
    kind: secret,
    meaning: "bearer token for /metrics; without it, /metrics answers only this machine",
    page: "metrics.md",
  },
  metrics_keys: {
    kind: wholeNumber(0, 100_000),
    default: "1000",
    meaning: "number of keys with their own metrics; later keys share `other`",
    page: "metrics.md#labels",
  },
  metrics_subjects: {
    kind: wholeNumber(0, 100_000),
    default: "0",
    meaning:
      "number of users and tag values with their own budget metrics; later ones share `other`; 0 omits budgets by user or tag",
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
    meaning: "origins of web pages that may send requests; requests from other pages get 403",
  },
  log_level: {
    kind: choice(["trace", "debug", "info", "warn", "error", "fatal", "silent"]),
    default: "info",
    meaning: "lowest level that is logged",
  },
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof settingsTable;

/** Value of each setting by its name; null if it has no default and is not given. */
export type SettingValues = {
  readonly [N in SettingName]:
    | ((typeof settingsTable)[N]["kind"] extends Kind<infer T> ? T : never)
    | ((typeof settingsTable)[N] extends { readonly default: string } ? never : null);
};

export const settingNames = Object.keys(settingsTable) as SettingName[];

/** Returns the table's entry, typed as a setting of any kind. */
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
