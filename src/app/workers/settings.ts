import { Secret } from "../../config/secret.ts";
import type { Settings } from "../../config/settings.ts";

/** Stands for a secret among data. */
interface PackedSecret {
  readonly secretText: string;
}

/** The settings as data. They go from process to process as they were read, so that a file of a secret may change meanwhile. */
export function packSettings(settings: Settings): unknown {
  return mapped(settings, (value) =>
    value instanceof Secret ? ({ secretText: value.reveal() } satisfies PackedSecret) : undefined,
  );
}

export function unpackSettings(packed: unknown): Settings {
  const secretIn = (value: object) => ("secretText" in value ? new Secret(String(value.secretText)) : undefined);
  return mapped(packed, secretIn) as Settings;
}

/** A copy in which some objects have others in their place. */
function mapped(value: unknown, inPlaceOf: (value: object) => object | undefined): unknown {
  if (typeof value !== "object" || value === null) return value;
  const other = inPlaceOf(value);
  if (other !== undefined) return other;
  if (Array.isArray(value)) return value.map((each) => mapped(each, inPlaceOf));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mapped(each, inPlaceOf)]));
}
