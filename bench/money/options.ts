import { parseArgs } from "node:util";
import { namesOf } from "../options.ts";
import { othersFolder } from "../others.ts";
import { modes, scenarioNames, type Mode, type ScenarioName } from "./peer.ts";
import { peerNames } from "./registry.ts";

export interface Options {
  readonly peers: readonly string[];
  /** True if `--peers` is set. */
  readonly isNamed: boolean;
  readonly scenarios: readonly ScenarioName[];
  readonly modes: readonly Mode[];
  /** Folder in which peers are installed. */
  readonly programs: string;
  /** File for the figures as JSON. */
  readonly json: string | null;
}

/** `--install`: prints the commands that install the peers into this folder. */
interface Install {
  readonly installInto: string;
}

export const usage = `npm run bench:money -- [options]

  --peers A,B       peers, of ${peerNames.join(", ")} (all that are installed);
                    the exit code is 1 if a named peer is missing or has another version
  --scenarios A,B   scenarios, of ${scenarioNames.join(", ")} (all)
  --modes A,B       configurations, of ${modes.join(", ")} (both)
  --programs DIR    folder in which the peers are installed (bench/.others)
  --json FILE       adds the figures to this file; replaces figures of the same peer, configuration and scenario
  --install         prints the commands that install the peers`;

/** Returns the options; "help" if help is requested. Throws an error for invalid options. */
export function readOptions(args: readonly string[]): Options | "help" | Install {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: { peers: text, scenarios: text, modes: text, programs: text, json: text, install: flag, help: flag },
  });
  if (values.help === true) return "help";
  const programs = values.programs ?? othersFolder;
  if (values.install === true) return { installInto: programs };
  return {
    peers: namesOf("peers", values.peers, peerNames),
    isNamed: values.peers !== undefined,
    scenarios: namesOf("scenarios", values.scenarios, scenarioNames),
    modes: namesOf("modes", values.modes, modes),
    programs,
    json: values.json ?? null,
  };
}
