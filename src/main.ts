import { adapters } from "./app.ts";
import type { Io } from "./cli/io.ts";
import { runCli } from "./cli/program.ts";
import { processEnvironment, readTextFile } from "./config/environment.ts";

const env = processEnvironment();
const io: Io = { stdout: process.stdout, stderr: process.stderr, isTTY: process.stdout.isTTY === true, env };

// A reader that closes early (`farebox charges | head`) has what it wanted.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

process.exitCode = await runCli(process.argv.slice(2), { io, env, readFile: readTextFile, adapters });
