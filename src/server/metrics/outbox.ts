import { Counter, type Registry } from "prom-client";
import { alertTypes, type AlertType } from "../../core/alerts.ts";
import { messageKinds, type MessageKind } from "../../ports/outbox.ts";

const results = ["delivered", "failed", "given_up"] as const;

/** Counts alerts and results of deliveries. */
export interface OutboxCounts {
  alert(type: AlertType): void;
  /** One try; `failed` is tried again. */
  delivery(kind: MessageKind, result: (typeof results)[number]): void;
}

export function outboxCounts(registers: Registry[]): OutboxCounts {
  const alerts = new Counter({
    name: "farebox_alerts_total",
    help: "Alerts raised, by type; each once for a window and threshold.",
    labelNames: ["type"],
    registers,
  });
  const deliveries = new Counter({
    name: "farebox_outbox_deliveries_total",
    help: "Tries to deliver a message, by result.",
    labelNames: ["kind", "result"],
    registers,
  });
  for (const type of alertTypes) alerts.labels(type).inc(0);
  for (const kind of messageKinds) for (const result of results) deliveries.labels(kind, result).inc(0);
  return {
    alert: (type) => alerts.labels(type).inc(),
    delivery: (kind, result) => deliveries.labels(kind, result).inc(),
  };
}
