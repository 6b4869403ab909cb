import { formatScope, type Scope } from "../core/budget.ts";
import type { KeyStore } from "../ports/key-store.ts";

/** A budget's scope as its users know it: with the key's name instead of its id. */
export async function scopeNameOf(scope: Scope, keys: KeyStore): Promise<string> {
  if (scope.kind !== "key") return formatScope(scope);
  const key = await keys.findById(scope.key);
  return formatScope({ kind: "key", key: key?.name ?? scope.key });
}
