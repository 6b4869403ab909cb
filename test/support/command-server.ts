import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { runCli } from "../../src/cli/program.ts";
import { processSurroundings } from "../../src/cli/surroundings.ts";
import { readTextFile } from "../../src/config/environment.ts";
import { buildOnce } from "./built-catalogues.ts";

/*
 * Program that runs farebox commands for test/support/document-session.sh. A command takes a few milliseconds here; starting
 * the program for each would take a tenth of a second. A connection sends the path of a file with the environment and
 * the arguments, and receives what the command prints. The exit code and stderr are written next to the file.
 */

async function run(path: string, socket: Socket): Promise<void> {
  const [cwd = "", ...words] = readFileSync(path, "utf8").split("\0").slice(0, -1);
  const end = words.indexOf("");
  const env = Object.fromEntries(words.slice(0, end).map((word) => word.split(/=([^]*)/, 2)));
  process.chdir(cwd);
  let stderr = "";
  const io = { stdout: socket, stderr: { write: (text: string) => (stderr += text) }, isTTY: false, env };
  const prices = { ...processSurroundings.prices, build: buildOnce };
  let code: number;
  try {
    code = await runCli(words.slice(end + 1), { ...processSurroundings, prices, io, env, readFile: readTextFile });
  } catch (error) {
    stderr += error instanceof Error ? error.stack : String(error);
    code = 2;
  }
  writeFileSync(`${path}.stderr`, stderr);
  writeFileSync(`${path}.code`, String(code));
  socket.end();
}

/** Commands run one after the other, because the working folder belongs to the process. */
let last = Promise.resolve();

const server = createServer((socket) => {
  socket.on("error", () => undefined);
  createInterface(socket).once("line", (path) => {
    last = last.then(() => run(path, socket));
  });
});
server.listen(0, "127.0.0.1", () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
