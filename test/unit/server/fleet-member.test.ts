import { expect, it } from "vitest";
import { fleetMember } from "../../../src/server/fleet.ts";
import { silentLog } from "../../support/captured-log.ts";
import { TestFleet } from "../../support/fleet.ts";
import { manualClock } from "../../support/manual-clock.ts";

/** Creates a proxy of a fleet with its prices; `lines` is its log, `received` the work that was reported to it. */
function proxy(fleet: TestFleet, clock = manualClock()) {
  const connection = fleet.join();
  const lines: string[] = [];
  const warned: object[] = [];
  const prices = {
    inForce: "2026-01",
    current: () => ({ digest: prices.inForce }),
    /** Digest of the files in the folder, which a reload applies. */
    inFolder: "2026-01",
    reads: 0,
    listeners: [] as (() => void)[],
    async reload() {
      prices.reads++;
      const isNew = prices.inForce !== prices.inFolder;
      prices.inForce = prices.inFolder;
      if (isNew) for (const listener of prices.listeners) listener();
    },
    onApplied: (listener: () => void) => void prices.listeners.push(listener),
  };
  const gauges = {
    peers: 0,
    differs: false,
    onBeat: (peers: number, differs: boolean) => void Object.assign(gauges, { peers, differs }),
    showJobs: () => {},
  };
  const log = {
    ...silentLog,
    info: (_fields: object, text: string) => void lines.push(text),
    warn: (fields: object, text: string) => {
      lines.push(text);
      warned.push(fields);
    },
  };
  const member = fleetMember({ fleet: connection, clock, log, gauges, prices, preset: "piapi" });
  const received: string[] = [];
  for (const work of ["posted", "queued", "tasks"] as const) member.on(work, () => void received.push(work));
  member.join(() => ({}));
  return { clock, connection, prices, gauges, lines, warned, member, received };
}

it("reads its price files once as soon as another proxy has other prices", () => {
  const fleet = new TestFleet();
  const [one, two] = [proxy(fleet), proxy(fleet)];
  fleet.beat();
  expect([one.prices.reads, two.prices.reads]).toEqual([0, 0]);
  one.prices.inFolder = two.prices.inFolder = "2026-02";
  void one.prices.reload();
  expect(one.connection.hastened).toBe(1);
  fleet.beat();
  expect([one.prices.reads, two.prices.reads]).toEqual([1, 1]);
  fleet.beat();
  fleet.beat();
  expect([one.prices.reads, two.prices.reads]).toEqual([1, 1]);
  expect(two.member.standing()).toEqual({ live: 1, otherCatalogues: [] });
  expect([...one.lines, ...two.lines]).toEqual([]);
});

it("reports that its prices differ in readiness and metrics at once, and in the log if that lasts", () => {
  const fleet = new TestFleet();
  const [one, two] = [proxy(fleet), proxy(fleet)];
  one.prices.inFolder = "2026-02";
  one.prices.inForce = "2026-02";
  fleet.beat();
  expect(two.member.standing()).toEqual({ live: 1, otherCatalogues: ["2026-02"] });
  expect(one.member.standing()).toEqual({ live: 1, otherCatalogues: ["2026-01"] });
  expect(two.gauges).toMatchObject({ peers: 1, differs: true });
  expect(two.lines).toEqual([]);
  two.clock.advance(5_000);
  fleet.beat();
  fleet.beat();
  expect(two.lines).toEqual(["other proxies on this ledger use different prices"]);
  expect(two.warned).toEqual([{ digest: "2026-01", preset: "piapi", others: ["2026-02"] }]);
  two.prices.inForce = "2026-02";
  fleet.beat();
  expect(two.gauges.differs).toBe(false);
  expect(two.lines).toHaveLength(2);
});

it("receives reports of peers' work, and wakes for all kinds of work when a peer joins or leaves", () => {
  const fleet = new TestFleet();
  const [one, two] = [proxy(fleet), proxy(fleet)];
  fleet.beat();
  expect(one.received).toEqual(["posted", "queued", "tasks"]);
  fleet.beat();
  expect(one.received).toHaveLength(3);
  two.member.report.posted();
  fleet.beat();
  expect(one.received.slice(3)).toEqual(["posted"]);
  // Its own jobs are notified at once.
  expect(two.received.slice(3)).toEqual(["posted"]);
  two.connection.isLive = false;
  fleet.beat();
  expect(one.received.slice(4)).toEqual(["posted", "queued", "tasks"]);
});
