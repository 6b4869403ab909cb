import { buffer } from "node:stream/consumers";
import type { Adapters } from "./cli/adapters.ts";
import { note, printLine } from "./cli/io.ts";
import { packageVersion, shippedPrices } from "./app/package.ts";
import { ask } from "./app/ask.ts";
import { priceAdapters } from "./app/prices.ts";
import { tuneRuntime } from "./app/runtime.ts";
import { startWatching } from "./app/watching.ts";
import { userName } from "./app/user-name.ts";
import { billingErrors, type BillingError } from "./sandbox/billing-errors.ts";
import { scenarioList } from "./sandbox/scenarios.ts";
import { calendarOf, isTimeZone } from "./time/calendar.ts";
import { systemClock } from "./time/clock.ts";

const clock = systemClock();

async function upkeep() {
  tuneRuntime();
  const { createUpkeep } = await import("./app/database.ts");
  return createUpkeep(clock);
}

/** What the commands need of the adapters. What only `serve` and `demo` need is loaded by them: other commands start fast. */
export const adapters: Adapters = {
  version: packageVersion(),
  clock,
  userName,
  ask,
  isTimeZone,
  calendarOf,

  async openStore(settings, access) {
    // A verification makes short-lived objects by the million: the young generation must not grow with them.
    tuneRuntime();
    const { openLedger } = await import("./app/ledger.ts");
    return openLedger(settings.database, { calendar: calendarOf(settings.timeZone), clock, access });
  },

  ...priceAdapters(shippedPrices),

  async createTokenCounter() {
    const { createTokenCounter } = await import("./tokens/token-counter.ts");
    return createTokenCounter();
  },

  readStdin: () => buffer(process.stdin),

  async readApplyFile(name, text) {
    const { readApplyFile } = await import("./app/apply-file.ts");
    return readApplyFile(name, text);
  },

  async fetchAccount(settings) {
    const { readAccountOnce } = await import("./app/account.ts");
    return readAccountOnce(settings, clock);
  },

  watch: startWatching,

  upkeep: {
    migrate: async (settings, options) => (await upkeep()).migrate(settings, options),
    backUp: async (settings, file, options) => (await upkeep()).backUp(settings, file, options),
    restore: async (settings, file, onProgress) => (await upkeep()).restore(settings, file, onProgress),
    move: async (from, to, on) => (await upkeep()).move(from, to, on),
    repair: async (settings, on) => (await upkeep()).repair(settings, on),
    prune: async (settings, options) => (await upkeep()).prune(settings, options),
  },

  async examine(subject, tell) {
    const { examine } = await import("./app/doctor.ts");
    return examine(subject, clock, tell);
  },

  async serve(settings, io) {
    const { serve } = await import("./app/serve.ts");
    return serve(settings, io);
  },

  async runInSession(order, settings, io) {
    const { runInSession } = await import("./app/run.ts");
    return runInSession(order, settings, io);
  },

  async demo(options, io) {
    const { demo } = await import("./app/demo.ts");
    return demo(options, io);
  },

  sandboxScenarios: scenarioList,
  sandboxBillingErrors: Object.entries(billingErrors).map(([usage, description]) => ({ usage, description })),

  async startSandbox({ misbill, ...options }, io) {
    const { startSandbox } = await import("./sandbox/server.ts");
    const { firstSignal } = await import("./app/signals.ts");
    const isKnown = (name: string): name is BillingError => Object.hasOwn(billingErrors, name);
    await using sandbox = await startSandbox({ ...options, billingErrors: misbill.filter(isKnown) });
    printLine(io, `sandbox gateway listening on ${sandbox.url}`);
    note(io, `its key is ${sandbox.apiKey}; scenarios are part of the model's name, as in gpt-4o+cut:5`);
    await firstSignal();
    return 0;
  },
};
