import { stripTypeScriptTypes } from "node:module";

/** A module's JavaScript, at the same lines and columns: what Node itself runs of one. */
export function withoutTypes(source: string): string {
  const { emitWarning } = process;
  // Node says at the first use that this call is experimental; it is what runs all of a checkout, and the package has no use for it.
  process.emitWarning = () => undefined;
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}
