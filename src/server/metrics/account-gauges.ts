import type { Registry } from "prom-client";
import type { Clock } from "../../ports/clock.ts";
import type { Events } from "../../ports/events.ts";
import { gauge } from "./gauges.ts";

/** Longest text from the gateway in a label, in characters. */
const textLengthMax = 64;

/** Values of a gauge, each with its labels. A null value is unknown. */
type Values = readonly (readonly [value: number | null, ...labels: string[]])[];

/**
 * Creates gauges of the gateway's account. Returns the event handler that sets them. A gauge is missing, not 0, while
 * its value is unknown.
 */
export function accountGauges(registry: Registry, clock: Clock): Events["accountRead"] {
  let fetchedAt = 0;
  const setter = (name: string, help: string, labels: readonly string[] = []) => {
    const made = gauge(null, name, help, { labels });
    return (values: Values): void => {
      made.reset();
      for (const [value, ...labelValues] of values) if (value !== null) made.labels(...labelValues).set(value);
      if (values.some(([value]) => value !== null)) registry.registerMetric(made);
      else registry.removeSingleMetric(name);
    };
  };
  const setUp = setter("farebox_balance_up", "1 if the last read of the gateway's account succeeded, otherwise 0.");
  const setUsd = setter("farebox_balance_usd", "The gateway's balance, in USD, as last read.");
  const setCredits = setter(
    "farebox_credits",
    "The gateway account's credits in its own unit, as last read, by kind.",
    ["kind"],
  );
  const setInfo = setter(
    "farebox_account_info",
    "Always 1; the labels name the plan and the billing type of the gateway's account.",
    ["plan", "type"],
  );
  const setCeilings = setter(
    "farebox_task_ceiling",
    "Largest number of tasks that the gateway's account may run at once, by family and in total, as last read.",
    ["family"],
  );
  const age = gauge(
    null,
    "farebox_balance_age_seconds",
    "Age of the last successful read of the gateway's account, in seconds.",
    { read: (made) => made.set(Math.max(0, (clock.now() - fetchedAt) / 1000)) },
  );
  return (reading) => {
    setUp([[reading === null ? 0 : 1]]);
    if (reading === null) return;
    const { plan, type } = reading;
    fetchedAt = reading.fetchedAt;
    registry.registerMetric(age);
    setUsd([[reading.usd]]);
    setCredits(byLabel(reading.credits));
    setCeilings(byLabel(reading.ceilings));
    // There is only one series, so a changed plan replaces the previous plan.
    setInfo([[plan === null && type === null ? null : 1, labelOf(plan), labelOf(type)]]);
  };
}

function byLabel(figures: Readonly<Record<string, number | null>>): Values {
  return Object.entries(figures).map(([label, figure]) => [figure, label]);
}

function labelOf(text: string | null): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what must not be shown
  return (text ?? "").replace(/[\u0000-\u001f\u007f]/g, " ").slice(0, textLengthMax);
}
