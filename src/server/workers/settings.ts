import { availableParallelism } from "node:os";
import { Secret } from "../../config/secret.ts";
import type { Settings } from "../../config/settings.ts";

/** Returns the number of processes that answer requests. `auto` is the number of cores that this process may use. */
export function workerCount({ listen: { workers } }: Pick<Settings, "listen">): number {
  return workers === "auto" ? availableParallelism() : workers;
}

/** Form of a secret that can be sent to another process. */
interface PackedSecret {
  readonly secretText: string;
}

/**
 * Returns the settings in a form that can be sent to a worker. Workers do not read the settings themselves, because the
 * file of a secret may have changed since the primary read it.
 */
export function packSettings(settings: Settings): unknown {
  return mapped(settings, (value) =>
    value instanceof Secret ? ({ secretText: value.reveal() } satisfies PackedSecret) : undefined,
  );
}

/** Converts the settings back from the form that `packSettings` returns. */
export function unpackSettings(packed: unknown): Settings {
  const secretIn = (value: object) => ("secretText" in value ? new Secret(String(value.secretText)) : undefined);
  return mapped(packed, secretIn) as Settings;
}

/** Returns a deep copy, with each object replaced for which `replacement` does not return undefined. */
function mapped(value: unknown, replacement: (value: object) => object | undefined): unknown {
  if (typeof value !== "object" || value === null) return value;
  const replaced = replacement(value);
  if (replaced !== undefined) return replaced;
  if (Array.isArray(value)) return value.map((each) => mapped(each, replacement));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mapped(each, replacement)]));
}
