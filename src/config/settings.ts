import type { OutboundSettings } from "./outbound.ts";
import type { SettingValues } from "./table.ts";
import type { TracingSettings } from "./tracing.ts";

/** Validated settings. A name such as `silenceMs` ends with its unit. Null means "not given". */
export type Settings = ReturnType<typeof nestSettings> & {
  /** Null if no spans are sent. */
  readonly tracing: TracingSettings | null;
  readonly outbound: OutboundSettings;
};

/** Converts the table's flat values to the shape that the program uses. */
export function nestSettings(values: SettingValues) {
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
    access: {
      auth: values.auth,
      adminToken: values.admin_token,
      accountInfo: values.account_info,
      ownView: values.own_view,
      users: values.users,
      /** Headers whose values become tags. */
      tagHeaders: values.tag_headers,
    },
    pricing: {
      folder: values.pricing,
      preset: values.preset,
      unpriced: values.unpriced,
      unknownFields: values.unknown_fields,
      /** Number of hosted tool calls to allow in a request that states no maximum; 0 refuses hosted tools. */
      toolCalls: values.tool_calls,
      /** Policy for hosted tools that nothing bounds; a key or a team may have its own. */
      hostedTools: values.hosted_tools,
    },
    output: {
      /** Largest number of output tokens for each choice of a request; null for no cap. */
      cap: values.output_cap,
      /**
       * Smallest maximum, in tokens, that Farebox writes into a request so that it fits its budget, if the request has
       * tools or a JSON format, or its model has hidden reasoning. Null if Farebox writes no such maximums.
       */
      fitTokensMin: values.fit === "on" ? values.fit_min : null,
    },
    balance: { ttlMs: values.balance_ttl, floor: values.balance_floor },
    alerts: {
      /** Address of the webhook, kept as a secret. */
      webhook: values.alert_webhook,
      secret: values.alert_secret,
      /** Balance in USD below which an alert is sent. Default: the balance below which nothing is forwarded. */
      balanceFloor: values.alert_balance ?? values.balance_floor,
      /** Hours left below which an alert is sent; null for never. */
      hoursMin: values.alert_hours_left === 0 ? null : values.alert_hours_left,
      unsettledMs: values.alert_pending,
    },
    /** `private`: true if webhooks of clients may have private addresses. */
    webhook: { private: values.webhook_private },
    tasks: { ceilings: values.task_ceilings },
    timeZone: values.time_zone,
    /** Largest number of new users, tag values and models per key and day. */
    subjectsMax: values.subjects_max,
    stream: { usage: values.stream_usage, sliceTokens: values.stream_slice },
    metrics: {
      token: values.metrics_token,
      keysMax: values.metrics_keys,
      subjectsMax: values.metrics_subjects,
      otel: values.metrics_otel,
    },
    logLevel: values.log_level,
  } as const;
}
