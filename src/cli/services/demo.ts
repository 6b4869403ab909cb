import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setBudget } from "../../admin/budget-changes.ts";
import { createKey } from "../../admin/key-changes.ts";
import { fail, printHeading, printLine, type ExitCode, type Io } from "../io.ts";
import type { RunCommandLine } from "../tools.ts";
import { processSurroundings } from "../surroundings.ts";
import { printRows, right } from "../table.ts";
import { noFile } from "../tools.ts";
import { loadSettings } from "../../config/load.ts";
import type { Settings } from "../../config/settings.ts";
import { fareboxAdmin } from "../../core/keys.ts";
import { formatUsd } from "../../core/money.ts";
import { createLog } from "../../platform/log.ts";
import type { Sandbox } from "../../sandbox/options.ts";
import { startSandbox } from "../../sandbox/server.ts";
import { systemClock } from "../../platform/clock.ts";
import { runDemoRequests } from "./demo-requests.ts";
import { isCheckout, packageVersion } from "../../server/package.ts";
import { startServing, type Serving } from "../../server/serving.ts";
import { firstSignal } from "../../server/signals.ts";

/** Budget of each key, in USD a day. */
const budgets = { demo: "1.00", intern: "0.0001" } as const;

/**
 * Runs a proxy in front of the sandbox, which is a fake gateway, with a temporary folder and free ports. No setting of
 * the environment applies, and no paid gateway is called. Returns the exit code.
 */
export async function demo({ once }: { readonly once: boolean }, io: Io, runCli: RunCommandLine): Promise<ExitCode> {
  // Listen for signals from the start, and continue without stdout, so that an interrupted demo also cleans up.
  const stopping = firstSignal();
  io.continueWithoutStdout?.();
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "farebox-demo-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const database = join(folder, "farebox.db");
  const sandbox = owned.use(await startSandbox({ latencyMs: 40, chunkDelayMs: 4 }));
  const adminToken = `demo-${randomBytes(18).toString("base64url")}`;
  const settings = demoSettings(database, sandbox, adminToken);
  const log = await createLog({ level: "silent", isTerminal: false });
  const started = await startServing(settings, { clock: systemClock(), log, version: packageVersion() });
  if (!started.ok) return fail(io, started.problems, 1);
  const serving = owned.use(started.serving);

  printHeading(io, "Running");
  printLine(io, `  sandbox gateway  ${sandbox.url}   (fake: costs nothing)`);
  printLine(io, `  farebox          ${serving.url}`);
  printLine(io, `  ledger           ${database}`);

  const keys = await demoKeys(serving, io);
  if (keys === undefined) return 1;
  printHeading(io, "Requests");
  const lines = await runDemoRequests(`${serving.url}/v1`, keys);
  await serving.settled();
  await serving.recorder.flush();
  const shown = readable(io);
  await printRequests(shown, serving, lines);

  const report = ["report", "--by", "key,model", "--database", database];
  const isCovered = await printSums(shown, serving, sandbox, () =>
    runCli(report, { ...processSurroundings, io: shown, env: {}, readFile: noFile }),
  );
  if (once) {
    printHeading(io, "Next");
    printLine(io, `  ${command("demo")}   (keeps running, with the dashboard)`);
    return isCovered ? 0 : 1;
  }
  printNextSteps(io, serving, { key: keys.demo, adminToken }, database);
  printLine(io, "\nRuns until Ctrl-C, then removes its folder.");
  await stopping;
  return 0;
}

function demoSettings(database: string, sandbox: Sandbox, adminToken: string): Settings {
  const loaded = loadSettings({
    env: {
      FAREBOX_GATEWAY_URL: sandbox.url,
      FAREBOX_GATEWAY_API_KEY: sandbox.apiKey,
      FAREBOX_DATABASE: database,
      FAREBOX_PORT: "0",
      FAREBOX_ADMIN_TOKEN: adminToken,
    },
    flags: {},
    readFile: noFile,
    uses: "all",
  });
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  return loaded.settings;
}

async function demoKeys(serving: Serving, io: Io): Promise<{ demo: string; intern: string } | undefined> {
  const clock = systemClock();
  printHeading(io, "Keys, each with a hard budget");
  const made: Record<string, string> = {};
  for (const [name, limit] of Object.entries(budgets)) {
    const created = await createKey({ keys: serving.keys, clock, by: fareboxAdmin }, { name });
    const set = await setBudget(
      { ledger: serving.ledger, keys: serving.keys, clock, by: fareboxAdmin },
      { scope: `key:${name}`, limit, period: "1d" },
    );
    if (!created.ok || !set.ok) return undefined;
    made[name] = created.text;
    printLine(io, `  ${name.padEnd(8)} ${limit} USD a day   ${created.text}`);
  }
  return made as { demo: string; intern: string };
}

/** Prints what the client received for each request, next to its charge in the ledger. */
async function printRequests(
  io: Io,
  serving: Serving,
  lines: Awaited<ReturnType<typeof runDemoRequests>>,
): Promise<void> {
  const rows = await Promise.all(
    lines.map(async ({ label, requestId, result }) => {
      const charge = requestId === null ? undefined : await serving.ledger.charge(requestId);
      const cost = charge?.cost == null ? null : formatUsd(charge.cost);
      const list = charge?.listCost == null ? null : formatUsd(charge.listCost);
      return { label, result, source: charge?.source ?? null, cost, list };
    }),
  );
  printRows(io, rows, {
    request: ({ label }) => label,
    answer: ({ result }) => result,
    source: ({ source }) => source,
    "cost USD": right(({ cost }) => cost),
    "list cost USD": right(({ list }) => list),
  });
}

/**
 * Prints the report, the gateway's own bill and the ledger's total. Returns true if the report succeeds, the total is
 * not below the bill, and `verify` finds no difference.
 */
async function printSums(io: Io, serving: Serving, sandbox: Sandbox, report: () => Promise<number>): Promise<boolean> {
  printHeading(io, "Spend, as `farebox report --by key,model` prints it");
  const reported = await report();
  printHeading(io, "Bill and ledger");
  const verification = await serving.ledger.verify();
  const { charges } = await serving.ledger.charges({ limit: 1000 });
  const total = charges.reduce((sum, charge) => sum + (charge.cost ?? 0n), 0n) as typeof sandbox.billed.cost;
  printLine(io, `  the gateway billed   ${formatUsd(sandbox.billed.cost)} USD`);
  printLine(io, `  the ledger says      ${formatUsd(total)} USD`);
  printLine(
    io,
    `  farebox verify       ${verification.charges} charges, ${verification.differences.length} differences`,
  );
  return reported === 0 && verification.differences.length === 0 && total >= sandbox.billed.cost;
}

function printNextSteps(
  io: Io,
  serving: Serving,
  { key, adminToken }: { readonly key: string; readonly adminToken: string },
  database: string,
): void {
  printHeading(io, "Point your SDK at this proxy");
  printLine(io, `  export OPENAI_BASE_URL=${serving.url}/v1`);
  printLine(io, `  export OPENAI_API_KEY=${key}`);
  printHeading(io, "Explore");
  printLine(io, `  ${serving.signInLink(adminToken)}`);
  printLine(io, "    (sign-in link: works once, within 10 minutes)");
  printLine(io, `  ${serving.url}/dashboard   (sign in with ${adminToken})`);
  for (const words of ["watch", "charges", "budgets list"]) printLine(io, `  ${command(words)} --database ${database}`);
  printLine(io, `  curl ${serving.url}/metrics`);
}

/** Returns the command line that runs this Farebox. */
function command(text: string): string {
  return `${isCheckout() ? "npm run --silent farebox --" : "npx farebox"} ${text}`;
}

/** Aligns tables even without a terminal, because people read the demo's output. */
function readable(io: Io): Io {
  return { ...io, isTTY: true, env: io.isTTY ? io.env : { ...io.env, NO_COLOR: "1" } };
}
