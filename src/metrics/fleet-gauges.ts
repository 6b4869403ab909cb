import { Gauge, type Registry } from "prom-client";
import { jobNames, type JobName } from "../ports/fleet.ts";

/** What is shown of the proxies that share the ledger. */
export interface FleetGauges {
  /** After a beat: how many others live, and whether the prices of one of them are others than here. */
  heard(peers: number, catalogueDiffers: boolean): void;
}

/** `does`: whether a job is this proxy's, asked at each scrape. */
export function fleetGauges(registers: Registry[], does: (job: JobName) => boolean): FleetGauges {
  const peers = new Gauge({ name: "farebox_peers", help: "Other live proxies on the same ledger.", registers });
  const differs = new Gauge({
    name: "farebox_catalogue_differs",
    help: "1 while a live peer has other prices in force than this proxy.",
    registers,
  });
  const duties = new Gauge({
    name: "farebox_duty_held",
    help: "1 where this proxy does a job for all that share the ledger: one of them at a time.",
    // Not `job`, which is what Prometheus calls the scrape's own.
    labelNames: ["duty"],
    registers,
    collect() {
      for (const job of jobNames) this.labels(job).set(does(job) ? 1 : 0);
    },
  });
  for (const job of jobNames) duties.labels(job).set(0);
  return {
    heard(count, catalogueDiffers) {
      peers.set(count);
      differs.set(catalogueDiffers ? 1 : 0);
    },
  };
}
