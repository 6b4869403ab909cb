import { Gauge, type Registry } from "prom-client";
import { jobNames, type JobName } from "../../ports/fleet.ts";

/** Gauges of the proxies that share the ledger. */
export interface FleetGauges {
  /** Sets the number of other live proxies; `catalogueDiffers` if one of them has other prices in force. */
  onBeat(peers: number, catalogueDiffers: boolean): void;
  /** Has each scrape show which jobs are this proxy's; all of them until then. */
  showJobs(isMine: (job: JobName) => boolean): void;
}

export function fleetGauges(registers: Registry[]): FleetGauges {
  let isMine = (_job: JobName): boolean => true;
  const peers = new Gauge({ name: "farebox_peers", help: "Other live proxies on the same ledger.", registers });
  const differs = new Gauge({
    name: "farebox_catalogue_differs",
    help: "1 while a live peer has other prices in force than this proxy.",
    registers,
  });
  const held = new Gauge({
    name: "farebox_duty_held",
    help: "1 where this proxy does a job for all that share the ledger: one of them at a time.",
    // Not `job`, which is what Prometheus calls the scrape's own.
    labelNames: ["duty"],
    registers,
    collect() {
      for (const job of jobNames) this.labels(job).set(isMine(job) ? 1 : 0);
    },
  });
  for (const job of jobNames) held.labels(job).set(0);
  return {
    onBeat(count, catalogueDiffers) {
      peers.set(count);
      differs.set(catalogueDiffers ? 1 : 0);
    },
    showJobs: (given) => void (isMine = given),
  };
}
