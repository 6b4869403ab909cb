import type { Io } from "./cli/io.ts";
import { runCli } from "./cli/program.ts";
import { ownSurroundings } from "./cli/surroundings.ts";
import { processEnvironment, readTextFile } from "./config/environment.ts";

const env = processEnvironment();
const io: Io = {
  stdout: process.stdout,
  stderr: process.stderr,
  isTTY: process.stdout.isTTY === true,
  isErrorTTY: process.stderr.isTTY === true,
  columns: process.stdout.columns ?? 80,
  env,
};

// A reader that closes early (`farebox charges | head`) has what it wanted.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

try {
  process.exitCode = await runCli(process.argv.slice(2), { ...ownSurroundings, io, env, readFile: readTextFile });
} catch (error) {
  // A bug, or a database that failed in the middle of a command. Not 1: that is an answer, such as verify's difference.
  process.stderr.write(`farebox: unexpected fault: ${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = 2;
}
