import childProcess, { ChildProcess } from "node:child_process";
import { syncBuiltinESMExports } from "node:module";
import { configureGlobal } from "fast-check";
import { startDay } from "./daytime.ts";
import { runs } from "./effort.ts";
import { seed } from "./fixed-seeds.ts";

/*
 * Setup of the tests that `npm test` runs. They are fast because they start no process. A test that starts a process
 * belongs in test/system.
 */

function refuse(): never {
  throw new Error("this test starts a process; move it to test/system, where npm run test:all runs it");
}

// Every asynchronous way to start a process calls this method, also in libraries.
(ChildProcess.prototype as unknown as { spawn: unknown }).spawn = refuse;
for (const name of ["spawnSync", "execSync", "execFileSync"] as const) childProcess[name] = refuse as never;
syncBuiltinESMExports();

configureGlobal({ seed, numRuns: runs(100) });
startDay();
