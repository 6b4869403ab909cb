import { expect, it } from "vitest";
import { fleetMember } from "../../../src/server/fleet.ts";
import { silentLog } from "../../../src/platform/log.ts";
import { TestFleet } from "../../support/fleet.ts";
import { manualClock } from "../../support/manual-clock.ts";

/** A proxy of a fleet with its prices; `lines` is what it logs, `heard` what it is told that others did. */
function proxy(fleet: TestFleet, clock = manualClock()) {
  const connection = fleet.join();
  const lines: string[] = [];
  const prices = {
    current: { digest: "2026-01" },
    /** In the folder; a read takes it over. */
    inFolder: "2026-01",
    reads: 0,
    listeners: [] as (() => void)[],
    async reload() {
      prices.reads++;
      const isNew = prices.current.digest !== prices.inFolder;
      prices.current = { digest: prices.inFolder };
      if (isNew) for (const listener of prices.listeners) listener();
    },
    onTaken: (listener: () => void) => void prices.listeners.push(listener),
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
    warn: (_fields: object, text: string) => void lines.push(text),
  };
  const member = fleetMember({ fleet: connection, clock, log, gauges, prices });
  const heard: string[] = [];
  for (const work of ["posted", "queued", "tasks"] as const) member.on(work, () => void heard.push(work));
  member.join(() => ({}));
  return { clock, connection, prices, gauges, lines, member, heard };
}

it("reads its price files as soon as another proxy has other prices, once", () => {
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

it("says that its prices differ: for readiness and metrics at once, in the log when they stay apart", () => {
  const fleet = new TestFleet();
  const [one, two] = [proxy(fleet), proxy(fleet)];
  one.prices.inFolder = "2026-02";
  one.prices.current = { digest: "2026-02" };
  fleet.beat();
  expect(two.member.standing()).toEqual({ live: 1, otherCatalogues: ["2026-02"] });
  expect(one.member.standing()).toEqual({ live: 1, otherCatalogues: ["2026-01"] });
  expect(two.gauges).toMatchObject({ peers: 1, differs: true });
  expect(two.lines).toEqual([]);
  two.clock.advance(5_000);
  fleet.beat();
  fleet.beat();
  expect(two.lines).toEqual(["other proxies of this ledger have other prices in force"]);
  two.prices.current = { digest: "2026-02" };
  fleet.beat();
  expect(two.gauges.differs).toBe(false);
  expect(two.lines).toHaveLength(2);
});

it("receives what peers did, and wakes for everything when one comes or goes", () => {
  const fleet = new TestFleet();
  const [one, two] = [proxy(fleet), proxy(fleet)];
  fleet.beat();
  expect(one.heard).toEqual(["posted", "queued", "tasks"]);
  fleet.beat();
  expect(one.heard).toHaveLength(3);
  two.member.did("posted");
  fleet.beat();
  expect(one.heard.slice(3)).toEqual(["posted"]);
  // Its own jobs hear of it at once.
  expect(two.heard.slice(3)).toEqual(["posted"]);
  two.connection.isLive = false;
  fleet.beat();
  expect(one.heard.slice(4)).toEqual(["posted", "queued", "tasks"]);
});
