import { Gauge, type Registry } from "prom-client";
import type { Clock } from "../../ports/clock.ts";
import type { Events } from "../../ports/events.ts";

/** Longest text of the gateway that is shown, in characters. */
const textLengthMax = 64;

/** Gauges of the gateway's account. Absent rather than 0 while it is unknown. */
export function accountGauges(registry: Registry, clock: Clock): Events["accountRead"] {
  let fetchedAt = 0;
  const registers: Registry[] = [];
  const up = new Gauge({
    name: "farebox_balance_up",
    help: "1 if the last read of the gateway's account succeeded, else 0.",
    registers,
  });
  const usd = new Gauge({
    name: "farebox_balance_usd",
    help: "The gateway's balance, in USD, as last read.",
    registers,
  });
  const credits = new Gauge({
    name: "farebox_credits",
    help: "The gateway account's credits in its own unit, as last read, by kind.",
    labelNames: ["kind"],
    registers,
  });
  const info = new Gauge({
    name: "farebox_account_info",
    help: "Always 1; the labels say the gateway account's plan and how it is billed.",
    labelNames: ["plan", "type"],
    registers,
  });
  const ceilings = new Gauge({
    name: "farebox_task_ceiling",
    help: "Tasks that the gateway's account may run at once, of a family or of all together, as last read.",
    labelNames: ["family"],
    registers,
  });
  const age = new Gauge({
    name: "farebox_balance_age_seconds",
    help: "Age of the last successful read of the gateway's account, in seconds.",
    registers,
    collect() {
      this.set(Math.max(0, (clock.now() - fetchedAt) / 1000));
    },
  });
  const show = (gauge: Gauge<string>, name: string, isKnown: boolean) => {
    if (isKnown) registry.registerMetric(gauge);
    else registry.removeSingleMetric(name);
  };
  return (reading) => {
    registry.registerMetric(up);
    up.set(reading === null ? 0 : 1);
    if (reading === null) return;
    fetchedAt = reading.fetchedAt;
    registry.registerMetric(age);
    show(usd, "farebox_balance_usd", reading.usd !== null);
    if (reading.usd !== null) usd.set(reading.usd);

    setKnown(credits, reading.credits);
    show(credits, "farebox_credits", isAnyKnown(reading.credits));
    setKnown(ceilings, reading.ceilings);
    show(ceilings, "farebox_task_ceiling", isAnyKnown(reading.ceilings));

    // One series at a time: a changed plan replaces the one before.
    const { plan, type } = reading;
    info.reset();
    info.labels(labelOf(plan), labelOf(type)).set(1);
    show(info, "farebox_account_info", plan !== null || type !== null);
  };
}

type Figures = Readonly<Record<string, number | null>>;

function setKnown(gauge: Gauge<string>, figures: Figures): void {
  gauge.reset();
  for (const [label, figure] of Object.entries(figures)) if (figure !== null) gauge.labels(label).set(figure);
}

function isAnyKnown(figures: Figures): boolean {
  return Object.values(figures).some((figure) => figure !== null);
}

function labelOf(text: string | null): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what must not be shown
  return (text ?? "").replace(/[\u0000-\u001f\u007f]/g, " ").slice(0, textLengthMax);
}
