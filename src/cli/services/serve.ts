import { fail, note, printLine, type ExitCode, type Io } from "../io.ts";
import { shownDatabase } from "../../config/database.ts";
import type { Settings } from "../../config/settings.ts";
import { readFirstPrices } from "../../catalogue/watched-prices.ts";
import { isLive } from "../../core/keys.ts";
import type { Preset } from "../../core/price.ts";
import { createLog } from "../../platform/log.ts";
import { systemClock } from "../../platform/clock.ts";
import { listenProblem } from "../../server/listen.ts";
import { migrateLedger, restoreHint } from "../../server/ledger.ts";
import { packageVersion } from "../../server/package.ts";
import { priceFolders } from "../../server/price-folders.ts";
import { growUnderLoad, tuneRuntime } from "../../server/runtime.ts";
import type { Serving } from "../../server/serving.ts";
import { firstSignal } from "../../server/signals.ts";

/** Line that says what the preset charges and how to change it, printed at each start. */
const presetLines: Readonly<Record<Preset, string>> = {
  piapi: "prices: preset piapi, the published shares of that gateway; FAREBOX_PRESET=official charges official prices",
  official:
    "prices: preset official, the official prices; FAREBOX_PRESET=piapi charges the published shares of that gateway",
};

/** Returns the next step for the user, depending on what the ledger still lacks. */
async function nextStep({ access }: Settings, { keys, admins }: Serving, now: number): Promise<string> {
  if (access.auth === "keys" && !(await keys.list()).some((key) => isLive(key, now)))
    return "create a key for requests with farebox keys create NAME";
  if (access.adminToken === null && !(await admins.list()).some((admin) => isLive(admin, now)))
    return "create a token for the dashboard with farebox admins create NAME --role editor";
  return "sign in to the dashboard with an admin token, or with an internal key for its own requests";
}

/** Runs the proxy until SIGTERM or SIGINT, then drains it. A second signal ends the process at once. */
export async function serve(settings: Settings, io: Io): Promise<ExitCode> {
  // Waits for signals from the start, so that one that arrives while the ledger opens is not lost, even if the process
  // has id 1.
  const stopping = firstSignal();
  io.continueWithoutStdout?.();
  let readPrices = (): void => undefined;
  process.on("SIGHUP", () => readPrices());
  tuneRuntime();
  // A thread may build the catalogue. Meanwhile, this thread loads the other modules of the proxy.
  const firstPrices = await readFirstPrices(priceFolders(settings.pricing));
  const log = await createLog({ level: settings.logLevel, isTerminal: process.stderr.isTTY === true });
  const place = shownDatabase(settings.database);
  const clock = systemClock();
  const migrated = await migrateLedger(settings.database, { at: clock.now() });
  if (!migrated.ok) {
    if (migrated.failure.kind !== "missing") {
      const { ledgerProblem } = await import("./database.ts");
      return fail(io, ledgerProblem(migrated.failure, place));
    }
    // A proxy that cannot listen must not leave a new ledger behind.
    const problem = await listenProblem(settings.listen);
    if (problem !== null) return fail(io, problem);
  } else if (migrated.changed) {
    const { migrationText } = await import("../db.ts");
    note(io, migrationText(place, migrated));
    if (migrated.backup !== null)
      note(io, `backup from before the migration: ${migrated.backup}; ${restoreHint(place, migrated.backup)}`);
  }
  const { startServing } = await import("../../server/serving.ts");
  const started = await startServing(settings, { clock, log, version: packageVersion(), firstPrices });
  if (!started.ok) {
    for (const problem of started.problems) note(io, `farebox: ${problem}`);
    return 2;
  }
  await using serving = started.serving;
  if (serving.created) note(io, `created the ledger at ${place}`);
  if (serving.recovered > 0)
    log.warn({ recovered: serving.recovered }, "holds of a proxy that died were posted as assumed");
  growUnderLoad();
  readPrices = () => void serving.reloadPrices();
  const { url } = serving;
  const next = await nextStep(settings, serving, clock.now());
  const lines = [
    `farebox listening on ${url}`,
    `dashboard: ${url}/dashboard`,
    presetLines[settings.pricing.preset],
    `next step: ${next}`,
  ];
  for (const line of lines) printLine(io, line);
  // Not awaited: a proxy serves even while its gateway does not answer.
  void serving.checkGatewayKey();
  const end = await Promise.race([
    stopping.then((signal) => ({ signal })),
    serving.failed.then((problem) => ({ problem })),
  ]);
  if ("problem" in end) return fail(io, end.problem);
  log.info({ signal: end.signal }, "draining");
  await serving.drain();
  return 0;
}
