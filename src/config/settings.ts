import type { PicoUsd } from "../core/money.ts";
import type { GatewayAddress } from "./addresses.ts";
import type { DatabaseSetting } from "./database.ts";
import type { Secret } from "./secret.ts";
import type { SettingValues } from "./table.ts";

/** The settings in force: validated, in the units that their names end with. Null is "not given". */
export interface Settings {
  readonly gateway: {
    readonly address: GatewayAddress | null;
    readonly apiKey: Secret | null;
    /** Milliseconds without a byte from the gateway. */
    readonly silenceMs: number;
    readonly streamMs: number;
    /** What carries requests to the gateway. */
    readonly engine: "http-proxy-middleware" | "undici";
    /** Whether every path is passed on, or the known ones only. */
    readonly passthrough: "known" | "all";
  };
  readonly listen: {
    readonly host: string;
    /** 0 picks a free one. */
    readonly port: number;
    /** Processes that answer requests: 1 for this one alone, `auto` for one a core. */
    readonly workers: number | "auto";
    readonly drainMs: number;
    readonly bodyBytesMax: number;
    readonly bodyMemoryBytesMax: number;
    readonly publicUrl: string | null;
    readonly corsOrigins: readonly string[];
  };
  readonly database: DatabaseSetting;
  readonly access: {
    readonly auth: "keys" | "open";
    readonly adminToken: Secret | null;
    readonly accountInfo: "full" | "balance" | "admin";
  };
  readonly pricing: {
    readonly folder: string | null;
    readonly unpriced: "record" | "refuse";
    readonly unknownFields: "hold" | "refuse";
    /** Calls of hosted tools in a request that states no maximum; 0 refuses them. */
    readonly toolCalls: number;
  };
  readonly output: {
    /** Most output tokens for each choice of a request; null for no cap. */
    readonly cap: number | null;
    /** The least maximum that a request with tools is fitted to; null for no fitting. */
    readonly fitTokensMin: number | null;
  };
  readonly balance: { readonly ttlMs: number; readonly floor: PicoUsd | null };
  readonly alerts: {
    /** An address, kept like a secret. */
    readonly webhook: Secret | null;
    readonly secret: Secret | null;
    /** That of the guard, unless given. */
    readonly balanceFloor: PicoUsd | null;
    /** Null for never. */
    readonly hoursMin: number | null;
    readonly unsettledMs: number;
  };
  readonly webhook: {
    /** Whether clients may have webhooks at private addresses. */
    readonly private: boolean;
  };
  readonly tasks: { readonly ceilings: "off" | "enforce" };
  readonly timeZone: string;
  readonly stream: { readonly usage: "auto" | "pass" | "inject"; readonly sliceTokens: number };
  readonly metrics: { readonly token: Secret | null; readonly keysMax: number; readonly otel: boolean };
  readonly logLevel: "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";
}

/** The flat values of the table in the shape that the program uses. */
export function nested(values: SettingValues): Settings {
  return {
    gateway: {
      address: values.gateway_url,
      apiKey: values.gateway_api_key,
      silenceMs: values.gateway_timeout,
      streamMs: values.stream_limit,
      engine: values.engine,
      passthrough: values.passthrough,
    },
    listen: {
      host: values.host,
      port: values.port,
      workers: values.workers,
      drainMs: values.drain,
      bodyBytesMax: values.body_limit,
      bodyMemoryBytesMax: values.body_memory,
      publicUrl: values.public_url,
      corsOrigins: values.cors_origins ?? [],
    },
    database: values.database,
    access: { auth: values.auth, adminToken: values.admin_token, accountInfo: values.account_info },
    pricing: {
      folder: values.pricing,
      unpriced: values.unpriced,
      unknownFields: values.unknown_fields,
      toolCalls: values.tool_calls,
    },
    output: { cap: values.output_cap, fitTokensMin: values.fit === "on" ? values.fit_min : null },
    balance: { ttlMs: values.balance_ttl, floor: values.balance_floor },
    alerts: {
      webhook: values.alert_webhook,
      secret: values.alert_secret,
      balanceFloor: values.alert_balance ?? values.balance_floor,
      hoursMin: values.alert_hours_left === 0 ? null : values.alert_hours_left,
      unsettledMs: values.alert_pending,
    },
    webhook: { private: values.webhook_private },
    tasks: { ceilings: values.task_ceilings },
    timeZone: values.time_zone,
    stream: { usage: values.stream_usage, sliceTokens: values.stream_slice },
    metrics: { token: values.metrics_token, keysMax: values.metrics_keys, otel: values.metrics_otel },
    logLevel: values.log_level,
  };
}
