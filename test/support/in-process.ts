import childProcess, { ChildProcess } from "node:child_process";
import { syncBuiltinESMExports } from "node:module";
import { configureGlobal } from "fast-check";
import { runs } from "./effort.ts";

/*
 * Setup of the tests that `npm test` runs: they are quick because they stay in this process. A test that starts another one
 * belongs into test/system.
 */

function refuse(): never {
  throw new Error("this test starts a process; move it to test/system, where npm run test:all runs it");
}

// Every way of starting a process in the background ends here, also that of libraries.
(ChildProcess.prototype as unknown as { spawn: unknown }).spawn = refuse;
for (const name of ["spawnSync", "execSync", "execFileSync"] as const) childProcess[name] = refuse as never;
syncBuiltinESMExports();

configureGlobal({ numRuns: runs(100) });
