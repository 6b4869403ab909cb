import { createInterface } from "node:readline";
import { parsePostgresUrl } from "../../src/core/postgres-url.ts";
import { usd } from "../../src/core/money.ts";
import { holdOf, posting } from "./ledger-fixtures.ts";
import { LedgerProxy } from "./postgres-proxies.ts";

/*
 * Runs a proxy on a ledger in PostgreSQL in a separate process that a test kills. After reading a line, it places 500
 * holds at once, by several keys, users, sessions and models, and settles most of them in order of admission. It
 * prints its epoch, a line for each settlement, and `done`, and ends with its standard input.
 */

const [url = "", name = ""] = process.argv.slice(2);
const address = parsePostgresUrl(url);
if (!address.ok) throw new Error("usage: scope-traffic URL NAME");
await using proxy = await LedgerProxy.open(address.server);
const commands = createInterface(process.stdin)[Symbol.asyncIterator]();
process.stdout.write(`${proxy.owner.knownEpoch()}\n`);
await commands.next();

const models = [["gpt-5"], ["gpt-5-mini"], ["claude"], ["claude", "gpt-5"], ["gpt-5", "gpt-5-mini"]];

async function request(n: number): Promise<void> {
  const id = `${name}-${n}`;
  const answering = models[n % models.length] ?? [];
  const caller = { key: `k-${n % 3}`, team: n % 4 === 0 ? "blue" : "red", user: n % 7 === 0 ? null : `u ${n % 5}` };
  const tags = n % 6 === 0 ? {} : { session: `run_${n % 8}` };
  const held = await proxy.hold(holdOf(id, usd("1"), { caller, tags, models: answering, model: answering[0] ?? "" }));
  if (!held.ok) {
    if (held.reason !== "no_room") throw new Error(held.reason);
    return;
  }
  if (n % 10 === 0) return;
  const answered = n % 2 === 0 ? answering.at(-1) : undefined;
  const cost = posting((n * 7_919) % 1_000_000, 0);
  const settled =
    n % 9 === 0 ? await proxy.void(id) : await proxy.post(id, { ...cost, ...(answered !== undefined && { answered }) });
  if (!settled.ok) throw new Error(settled.reason);
  process.stdout.write(`settled ${id}\n`);
}

await Promise.all(Array.from({ length: 500 }, (_, n) => request(n)));
process.stdout.write("done\n");
await commands.next();
