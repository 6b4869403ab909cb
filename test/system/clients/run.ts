/** Installs the clients, type-checks their tests and runs them: `npm run test:clients`, with `-- --all` for every client. */
import { spawnSync } from "node:child_process";
import { installClients } from "./install.ts";

const [first, ...others] = process.argv.slice(2);
const all = first === "--all";
const files = [...(all || first === undefined ? [] : [first]), ...others];
await installClients({ all });
run("tsc", ["-p", "test/system/clients"]);
run("vitest", ["run", "--config", "vitest.clients.config.ts", ...files]);

function run(program: string, args: readonly string[]): void {
  const env = { ...process.env, ...(all && { FAREBOX_TEST_CLIENTS: "all" }) };
  const { status } = spawnSync(program, args, { stdio: "inherit", env });
  if (status !== 0) process.exit(status ?? 1);
}
