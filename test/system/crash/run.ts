import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { runCampaign } from "./campaign.ts";

const usage = `npm run crash -- [options]

  --times N     lives of the process, each ended in the middle of its work (100)
  --seed N      chooses who asks for what, and when and how it ends (random; printed)
  --clients N   clients at once (30)

Ends with 0 when every promise held, else with 1 and each that did not. Everything is on loopback and in a folder that goes
with it; 100 lives take about five minutes.`;

/** Parses a number; throws an error that names the option and its range. */
function numberOf(name: string, text: string | undefined, otherwise: number, most: number): number {
  const value = text === undefined ? otherwise : Number(text);
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw new Error(`--${name} must be a whole number from 1 to ${most}\n\n${usage}`);
}

const print = (line: string) => process.stdout.write(`${line}\n`);

try {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { times: text, seed: text, clients: text, help: { type: "boolean" } } });
  if (values.help === true) {
    print(usage);
  } else {
    const options = {
      times: numberOf("times", values.times, 100, 10_000),
      seed: numberOf("seed", values.seed, randomInt(1, 2 ** 31), 2 ** 31),
      clients: numberOf("clients", values.clients, 30, 500),
    };
    print(`seed ${options.seed}`);
    const { broken, ...figures } = await runCampaign({ ...options, onRound: print });
    for (const what of broken) print(`BROKEN: ${what}`);
    print(JSON.stringify(figures, null, 2));
    print(
      broken.length === 0
        ? "every promise held"
        : `${broken.length} broken promises; repeat with --seed ${options.seed}`,
    );
    process.exitCode = broken.length === 0 ? 0 : 1;
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
