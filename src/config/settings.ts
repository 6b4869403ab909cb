import type { SettingValues } from "./table.ts";

/** Settings in force: validated, in the units that their names end with. Null means "not given". */
export type Settings = ReturnType<typeof nested>;

/** Converts the table's flat values to the shape that the program uses. */
export function nested(values: SettingValues) {
  return {
    gateway: {
      address: values.gateway_url,
      apiKey: values.gateway_api_key,
      /** Longest time without a byte from the gateway, in milliseconds. */
      silenceMs: values.gateway_timeout,
      streamMs: values.stream_limit,
      engine: values.engine,
      passthrough: values.passthrough,
    },
    listen: {
      host: values.host,
      /** Port to listen on; 0 picks a free port. */
      port: values.port,
      /** Number of processes that answer requests: 1 for this process alone, `auto` for one per core. */
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
      /** Number of hosted tool calls to allow in a request that states no maximum; 0 refuses hosted tools. */
      toolCalls: values.tool_calls,
    },
    output: {
      /** Largest number of output tokens for each choice of a request; null for no cap. */
      cap: values.output_cap,
      /**
       * Smallest maximum, in tokens, that fitting writes into requests with tools, a JSON format or hidden reasoning. Null
       * turns fitting off.
       */
      fitTokensMin: values.fit === "on" ? values.fit_min : null,
    },
    balance: { ttlMs: values.balance_ttl, floor: values.balance_floor },
    alerts: {
      /** Address of the webhook, kept as a secret. */
      webhook: values.alert_webhook,
      secret: values.alert_secret,
      /** Balance in USD below which an alert is sent. Default: the balance floor of the guard. */
      balanceFloor: values.alert_balance ?? values.balance_floor,
      /** Hours left below which an alert is sent; null for never. */
      hoursMin: values.alert_hours_left === 0 ? null : values.alert_hours_left,
      unsettledMs: values.alert_pending,
    },
    /** Allows clients' webhooks at private addresses. */
    webhook: { private: values.webhook_private },
    tasks: { ceilings: values.task_ceilings },
    timeZone: values.time_zone,
    stream: { usage: values.stream_usage, sliceTokens: values.stream_slice },
    metrics: { token: values.metrics_token, keysMax: values.metrics_keys, otel: values.metrics_otel },
    logLevel: values.log_level,
  } as const;
}
