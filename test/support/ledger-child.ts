import { everyRequest } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { openStore, utc, holdOf, posting, endAt, noon, budget } from "./ledger-fixtures.ts";
import { systemClock } from "../../src/platform/clock.ts";

/*
 * Runs a proxy's ledger in a separate process that a test kills. It opens the database for `serve`, reports that, and
 * then places and posts holds in several lanes. Each line on stdout is an acknowledged step: `held ID` or `posted
 * ID`.
 */

const [path, lanes] = process.argv.slice(2);
if (path === undefined) throw new Error("usage: ledger-child PATH [LANES]");
const store = await openStore({ path, calendar: utc, clock: systemClock(), access: "serve" });
await store.ledger.setBudget(budget(everyRequest, "total", "1000"), noon);
process.stdout.write("open\n");

async function lane(name: number): Promise<void> {
  for (let n = 0; ; n++) {
    const id = `lane${name}-${n}`;
    const held = await store.ledger.hold(holdOf(id, usd("0.01")));
    if (!held.ok) throw new Error(held.reason);
    process.stdout.write(`held ${id}\n`);
    const posted = await store.ledger.post(id, posting(100, n), endAt(noon));
    if (!posted.ok) throw new Error(posted.reason);
    process.stdout.write(`posted ${id}\n`);
  }
}

await Promise.all(Array.from({ length: Number(lanes ?? 0) }, (_, name) => lane(name)));
// Without lanes it only keeps the database open until it is killed.
setInterval(() => {}, 1000);
