import { spawn } from "node:child_process";

/*
 * Checks format, lint, types and spelling in parallel. If the arguments are a command, also runs that command and prints its
 * output. Prints failed checks at the end.
 */

const checks = ["format:check", "lint", "typecheck", "spell"];

interface Ended {
  readonly output: string;
  readonly code: number;
}

function run(command: string, parameters: readonly string[], output: "kept" | "passed"): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, parameters, { stdio: output === "passed" ? "inherit" : ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (part: string) => (text += part));
    child.on("error", reject);
    child.on("close", (code) => resolve({ output: text, code: code ?? 1 }));
  });
}

const [command, ...parameters] = process.argv.slice(2);
const next = command === undefined ? { output: "", code: 0 } : run(command, parameters, "passed");
const ended = await Promise.all(checks.map((name) => run("npm", ["run", "--silent", name], "kept")));
process.exitCode = (await next).code;
for (const [index, { output, code }] of ended.entries()) {
  if (code === 0) continue;
  process.stdout.write(`npm run ${checks[index]} failed:\n${output}\n`);
  process.exitCode = 1;
}
