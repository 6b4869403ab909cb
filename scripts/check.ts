import { spawn } from "node:child_process";

/* Runs format, lint, types and spelling at the same time, and prints what fails. */

const checks = ["format:check", "lint", "typecheck", "spell"];

interface Checked {
  readonly output: string;
  readonly code: number;
}

function run(name: string): Promise<Checked> {
  return new Promise((resolve, reject) => {
    const child = spawn("npm", ["run", "--silent", name], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.on("error", reject);
    child.on("close", (code) => resolve({ output, code: code ?? 1 }));
  });
}

for (const [index, checked] of (await Promise.all(checks.map(run))).entries()) {
  if (checked.code === 0) continue;
  process.stdout.write(`npm run ${checks[index]} fails:\n${checked.output}\n`);
  process.exitCode = 1;
}
