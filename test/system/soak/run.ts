import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { rule } from "./memory.ts";
import { runSoak } from "./soak.ts";

const usage = `npm run soak -- [options]

  --minutes N      time under load (20)
  --postgres       with a ledger in PostgreSQL, which is killed and started again
  --kill-every N   minutes between two kills (2)
  --clients N      clients that send one mixed request after the other (20)
  --streams N      slow streams that are open all the time (100)
  --seed N         chooses who asks for what (random; printed)

Ends with 0 if every request is accounted for, the sums of ledger and gateway agree and neither memory nor file descriptors grew; with 1 and each
fault if not. Growth, in a run of at least 5 minutes: ${rule}.
Everything is on loopback and in a folder that is removed at the end.`;

/** Parses a number; throws an error that names the option, its range and the value. */
function numberOf(name: string, text: string | undefined, otherwise: number, most: number): number {
  const value = text === undefined ? otherwise : Number(text);
  if (value > 0 && value <= most) return value;
  throw new Error(`--${name} must be a number above 0 and at most ${most}, not '${text}'`);
}

const print = (line: string) => process.stdout.write(`${line}\n`);

async function run(): Promise<0 | 1> {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { values } = parseArgs({
    options: {
      minutes: text,
      postgres: flag,
      "kill-every": text,
      clients: text,
      streams: text,
      seed: text,
      help: flag,
    },
  });
  if (values.help === true) {
    print(usage);
    return 0;
  }
  const killEveryMinutes = numberOf("kill-every", values["kill-every"], 2, 24 * 60);
  if (values["kill-every"] !== undefined && values.postgres !== true)
    throw new Error("--kill-every needs --postgres, because only PostgreSQL is killed");
  const options = {
    minutes: numberOf("minutes", values.minutes, 20, 24 * 60),
    clients: numberOf("clients", values.clients, 20, 1_000),
    streams: numberOf("streams", values.streams, 100, 5_000),
    seed: numberOf("seed", values.seed, randomInt(1, 2 ** 31), 2 ** 31),
    postgres: values.postgres === true ? { killEveryMinutes } : null,
  };
  print(`seed ${options.seed}`);
  const { broken, log, ...figures } = await runSoak({ ...options, report: print });
  print(JSON.stringify(figures, null, 2));
  for (const what of broken.slice(0, 100)) print(`FAULT: ${what}`);
  if (broken.length > 0) print(`end of the proxy's log:\n${log.slice(-10_000)}`);
  print(broken.length === 0 ? "every request is accounted for" : `${broken.length} faults`);
  return broken.length === 0 ? 0 : 1;
}

// Without an explicit exit code, the package of the tests' PostgreSQL makes the process end with 0.
try {
  process.exit(await run());
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}; see npm run soak -- --help\n`);
  process.exit(2);
}
