import { migrationText } from "../cli/db.ts";
import { fail, note, printLine, type ExitCode, type Io } from "../cli/io.ts";
import { shownDatabase } from "../config/database.ts";
import type { Settings } from "../config/settings.ts";
import { createLog } from "../platform/log.ts";
import { systemClock } from "../platform/clock.ts";
import { ledgerProblem } from "./database.ts";
import { migrateLedger, restoreHint } from "./ledger.ts";
import { packageVersion } from "./package.ts";
import { tuneRuntime } from "./runtime.ts";
import { startServing } from "./serving.ts";
import { firstSignal } from "./signals.ts";

/** Runs the proxy until SIGTERM or SIGINT, then drains it. A second signal ends at once. */
export async function serve(settings: Settings, io: Io): Promise<ExitCode> {
  // From the start: a signal while the ledger is opened is not lost, even for a process with id 1.
  const stopping = firstSignal();
  let readPrices = (): void => undefined;
  process.on("SIGHUP", () => readPrices());
  tuneRuntime();
  const log = createLog({ level: settings.logLevel, isTerminal: process.stderr.isTTY === true });
  const place = shownDatabase(settings.database);
  const clock = systemClock();
  const migrated = await migrateLedger(settings.database, { at: clock.now() });
  if (!migrated.ok && migrated.failure.kind !== "missing") return fail(io, ledgerProblem(migrated.failure, place));
  if (migrated.ok && migrated.changed) {
    note(io, migrationText(place, migrated));
    if (migrated.backup !== null)
      note(io, `as it was before: ${migrated.backup}; ${restoreHint(settings.database, migrated.backup)}`);
  }
  const started = await startServing(settings, { clock, log, version: packageVersion() });
  if (!started.ok) {
    for (const problem of started.problems) note(io, `farebox: ${problem}`);
    return 2;
  }
  await using serving = started.serving;
  if (serving.created) note(io, `created the ledger at ${place}`);
  if (serving.recovered > 0)
    log.warn({ recovered: serving.recovered }, "holds of a proxy that died were posted as assumed");
  readPrices = () => void serving.reloadPrices();
  printLine(io, `farebox listening on ${serving.url}`);
  const end = await Promise.race([
    stopping.then((signal) => ({ signal })),
    serving.failed.then((problem) => ({ problem })),
  ]);
  if ("problem" in end) return fail(io, end.problem);
  log.info({ signal: end.signal }, "draining");
  await serving.drain();
  return 0;
}
