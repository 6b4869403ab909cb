import { availableParallelism } from "node:os";
import { Secret } from "../../config/secret.ts";
import type { Settings } from "../../config/settings.ts";

/** Returns the number of processes that answer requests. `auto` is the cores that a container or an affinity leaves. */
export function workerCount({ listen: { workers } }: Pick<Settings, "listen">): number {
  return workers === "auto" ? availableParallelism() : workers;
}

/** A secret as data. */
interface PackedSecret {
  readonly secretText: string;
}

/** Returns the settings as data. Workers get them as the primary read them: the file of a secret may change meanwhile. */
export function packSettings(settings: Settings): unknown {
  return mapped(settings, (value) =>
    value instanceof Secret ? ({ secretText: value.reveal() } satisfies PackedSecret) : undefined,
  );
}

export function unpackSettings(packed: unknown): Settings {
  const secretIn = (value: object) => ("secretText" in value ? new Secret(String(value.secretText)) : undefined);
  return mapped(packed, secretIn) as Settings;
}

/** Returns a copy in which objects are replaced by those that `replacement` returns for them. */
function mapped(value: unknown, replacement: (value: object) => object | undefined): unknown {
  if (typeof value !== "object" || value === null) return value;
  const other = replacement(value);
  if (other !== undefined) return other;
  if (Array.isArray(value)) return value.map((each) => mapped(each, replacement));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mapped(each, replacement)]));
}
