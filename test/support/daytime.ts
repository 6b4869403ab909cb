/** Time at which the tests of a process start: no hour, day, week or month of any time zone ends soon after it. */
const start = Date.parse("2026-11-25T10:01:00Z");

const MachineDate = Date;
let aheadMs = 0;
const now = (): number => MachineDate.now() + aheadMs;

const TestDate = new Proxy(MachineDate, {
  construct: (_, parts, target) => Reflect.construct(MachineDate, parts.length === 0 ? [now()] : parts, target) as Date,
  get: (_, name) => (name === "now" ? now : (Reflect.get(MachineDate, name) as unknown)),
});

/** Returns the time of the machine's clock, which Node writes into the `date` header of HTTP answers. */
export const machineNow = (): number => MachineDate.now();

/** Sets the time of this process to the same morning in every run. Its seconds pass as usual. */
export function startDay(): void {
  aheadMs = start - MachineDate.now();
  globalThis.Date = TestDate;
}

/** Sets the time of this process to that of the machine again. */
export function endDay(): void {
  aheadMs = 0;
  globalThis.Date = MachineDate;
}
