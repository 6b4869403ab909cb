import type { SettingValues } from "./table.ts";

/** The settings in force: validated, in the units that their names end with. Null is "not given". */
export type Settings = ReturnType<typeof nested>;

/** The flat values of the table in the shape that the program uses. */
export function nested(values: SettingValues) {
  return {
    gateway: {
      address: values.gateway_url,
      apiKey: values.gateway_api_key,
      /** Milliseconds without a byte from the gateway. */
      silenceMs: values.gateway_timeout,
      streamMs: values.stream_limit,
      engine: values.engine,
      passthrough: values.passthrough,
    },
    listen: {
      host: values.host,
      /** 0 picks a free one. */
      port: values.port,
      /** Processes that answer requests: 1 for this one alone, `auto` for one a core. */
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
      /** Calls of hosted tools in a request that states no maximum; 0 refuses them. */
      toolCalls: values.tool_calls,
    },
    output: {
      /** Most output tokens for each choice of a request; null for no cap. */
      cap: values.output_cap,
      /** The least maximum that a request with tools is fitted to; null for no fitting. */
      fitTokensMin: values.fit === "on" ? values.fit_min : null,
    },
    balance: { ttlMs: values.balance_ttl, floor: values.balance_floor },
    alerts: {
      /** An address, kept like a secret. */
      webhook: values.alert_webhook,
      secret: values.alert_secret,
      /** That of the guard, unless given. */
      balanceFloor: values.alert_balance ?? values.balance_floor,
      /** Null for never. */
      hoursMin: values.alert_hours_left === 0 ? null : values.alert_hours_left,
      unsettledMs: values.alert_pending,
    },
    /** Permits webhooks of clients at private addresses. */
    webhook: { private: values.webhook_private },
    tasks: { ceilings: values.task_ceilings },
    timeZone: values.time_zone,
    stream: { usage: values.stream_usage, sliceTokens: values.stream_slice },
    metrics: { token: values.metrics_token, keysMax: values.metrics_keys, otel: values.metrics_otel },
    logLevel: values.log_level,
  } as const;
}
