import type { Settings } from "../config/settings.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events, SpansSent } from "../ports/events.ts";
import type { Log } from "../ports/log.ts";
import type { OtlpTracing } from "../tracing/tracing.ts";

interface OpenOptions {
  readonly version: string;
  readonly clock: Clock;
  readonly onSent: (sent: SpansSent) => void;
}

/**
 * Starts tracing in this process. Without a receiver in the settings, returns null and does not load the OpenTelemetry
 * SDK.
 */
export async function openTracing(
  { tracing, gateway }: Pick<Settings, "tracing" | "gateway">,
  options: OpenOptions,
): Promise<OtlpTracing | null> {
  if (tracing === null || gateway.address === null) return null;
  const { startTracing } = await import("../tracing/tracing.ts");
  const { address, ...rest } = tracing;
  return startTracing({ ...rest, ...options, address: address.reveal(), gateway: new URL(gateway.address.origin) });
}

/** Returns an event handler that logs one line when spans begin to be lost, and one when they arrive again. */
export function spanLog(log: Log): Pick<Events, "spansSent"> {
  let isLosing = false;
  return {
    spansSent(sent) {
      if ((sent.lost !== null) === isLosing) return;
      isLosing = sent.lost !== null;
      if (isLosing)
        log.warn(
          { reason: sent.lost },
          "spans cannot be sent to OTEL_EXPORTER_OTLP_ENDPOINT; farebox_spans_total counts the lost ones",
        );
      else log.info({}, "spans are sent again");
    },
  };
}
