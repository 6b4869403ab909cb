import type { Io } from "./cli/io.ts";
import { runCli } from "./cli/program.ts";
import { processSurroundings } from "./cli/surroundings.ts";
import { processEnvironment, readTextFile } from "./config/environment.ts";

const env = processEnvironment();
let isStdoutOptional = false;
const io: Io = {
  stdout: process.stdout,
  stderr: process.stderr,
  isTTY: process.stdout.isTTY === true,
  isErrorTTY: process.stderr.isTTY === true,
  columns: process.stdout.columns ?? 80,
  continueWithoutStdout: () => (isStdoutOptional = true),
  env,
};

/** Longest time that a connection keeps the process running after its command has ended, in milliseconds. */
const lingerMs = 1_000;

// If no one can read stderr, the command continues without its notes.
process.stderr.on("error", () => undefined);
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (isStdoutOptional) return;
  // If a reader closes the pipe early (`farebox charges | head`), it needs no more output, and this is not an error.
  if (error.code === "EPIPE") process.exit();
  process.stderr.write(`farebox: stdout cannot be written: ${error.message}\n`, () => process.exit(2));
});

try {
  process.exitCode = await runCli(process.argv.slice(2), { ...processSurroundings, io, env, readFile: readTextFile });
} catch (error) {
  // A bug, or a database that failed during a command. The code is not 1, because 1 is a result, such as a difference in verify.
  process.stderr.write(`farebox: unexpected fault: ${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = 2;
}
// For example, a receiver of traces may keep its connection open. A slow reader of the output still gets all of it.
setTimeout(() => process.stdout.write("", () => process.stderr.write("", () => process.exit())), lingerMs).unref();
