import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setBudget } from "../../admin/budgets.ts";
import { createKey } from "../../admin/keys.ts";
import { bold, fail, printLine, type ExitCode, type Io } from "../io.ts";
import { runCli } from "../program.ts";
import { ownSurroundings } from "../surroundings.ts";
import { printRows, right } from "../table.ts";
import { loadSettings } from "../../config/load.ts";
import type { Settings } from "../../config/settings.ts";
import type { ReadFile } from "../../config/sources.ts";
import { fareboxAdmin } from "../../core/keys.ts";
import { formatUsd } from "../../core/money.ts";
import { silentLog } from "../../platform/log.ts";
import type { Sandbox } from "../../sandbox/options.ts";
import { startSandbox } from "../../sandbox/server.ts";
import { isTimeZone, systemClock } from "../../platform/clock.ts";
import { runDemoRequests } from "./demo-requests.ts";
import { isCheckout, packageVersion } from "../../server/package.ts";
import { startServing, type Serving } from "../../server/serving.ts";
import { firstSignal } from "../../server/signals.ts";

const budgets = { demo: "1.00", intern: "0.0001" } as const;

/** The demo has no settings file. */
const noFiles: ReadFile = () => ({ ok: false, code: "ENOENT" });

/**
 * Runs a proxy in front of the sandbox, in its own folder and on free ports. Ignores the environment's settings and costs
 * nothing.
 */
export async function demo({ once }: { readonly once: boolean }, io: Io): Promise<ExitCode> {
  // Listen for signals from the start, so that an interrupted demo also cleans up.
  const stopping = firstSignal();
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "farebox-demo-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const database = join(folder, "farebox.db");
  const sandbox = owned.use(await startSandbox({ latencyMs: 40, chunkDelayMs: 4 }));
  const adminToken = `demo-${randomBytes(18).toString("base64url")}`;
  const settings = demoSettings(database, sandbox, adminToken);
  const started = await startServing(settings, { clock: systemClock(), log: silentLog, version: packageVersion() });
  if (!started.ok) return fail(io, started.problems, 1);
  const serving = owned.use(started.serving);

  heading(io, "Running");
  printLine(io, `  sandbox gateway  ${sandbox.url}   (fake: costs nothing)`);
  printLine(io, `  farebox          ${serving.url}   (point your SDK here: ${serving.url}/v1)`);
  printLine(io, `  ledger           ${database}`);

  const keys = await demoKeys(serving, io);
  if (keys === undefined) return 1;
  heading(io, "Requests");
  const lines = await runDemoRequests(`${serving.url}/v1`, keys);
  await serving.settled();
  await showRequests(readable(io), serving, lines);

  const agrees = await showSums(readable(io), serving, sandbox, database);
  showHow(io, serving, { key: keys.demo, adminToken }, database);
  if (once) return agrees ? 0 : 1;
  printLine(io, "\nRuns until Ctrl-C, and then removes its folder.");
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
    readFile: noFiles,
    isTimeZone,
    uses: "all",
  });
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  return loaded.settings;
}

async function demoKeys(serving: Serving, io: Io): Promise<{ demo: string; intern: string } | undefined> {
  const clock = systemClock();
  heading(io, "Keys, each with a hard budget");
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

/** Prints each response to the client next to its charge in the ledger. */
async function showRequests(
  io: Io,
  serving: Serving,
  lines: Awaited<ReturnType<typeof runDemoRequests>>,
): Promise<void> {
  const rows = await Promise.all(
    lines.map(async ({ what, requestId, result }) => {
      const charge = requestId === null ? undefined : await serving.ledger.charge(requestId);
      const cost = charge?.cost == null ? null : formatUsd(charge.cost);
      const list = charge?.listCost == null ? null : formatUsd(charge.listCost);
      return { what, result, source: charge?.source ?? null, cost, list };
    }),
  );
  printRows(io, rows, {
    request: ({ what }) => what,
    answer: ({ result }) => result,
    "known by": ({ source }) => source,
    "cost USD": right(({ cost }) => cost),
    "list price USD": right(({ list }) => list),
  });
}

/** Prints the report and the gateway's own bill. Returns true when both agree and `verify` finds no difference. */
async function showSums(io: Io, serving: Serving, sandbox: Sandbox, database: string): Promise<boolean> {
  heading(io, "Spend, as `farebox report --by key,model` prints it");
  const context = { ...ownSurroundings, io, env: {}, readFile: noFiles };
  const reported = await runCli(["report", "--by", "key,model", "--database", database], context);
  heading(io, "Books");
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

function showHow(
  io: Io,
  serving: Serving,
  { key, adminToken }: { readonly key: string; readonly adminToken: string },
  database: string,
): void {
  heading(io, "Point your own SDK at it");
  printLine(io, `  export OPENAI_BASE_URL=${serving.url}/v1`);
  printLine(io, `  export OPENAI_API_KEY=${key}`);
  heading(io, "Look around");
  printLine(io, `  ${serving.url}/dashboard   (sign in with ${adminToken})`);
  const command = isCheckout() ? "npm run --silent farebox --" : "npx farebox";
  printLine(io, `  ${command} watch --database ${database}`);
  printLine(io, `  ${command} charges --database ${database}`);
  printLine(io, `  ${command} budgets list --database ${database}`);
  printLine(io, `  curl ${serving.url}/metrics`);
}

/** People read the demo, so its tables are aligned even without a terminal. */
function readable(io: Io): Io {
  return { ...io, isTTY: true, env: io.isTTY ? io.env : { ...io.env, NO_COLOR: "1" } };
}

function heading(io: Io, text: string): void {
  printLine(io, "");
  printLine(io, bold(io, text));
}
