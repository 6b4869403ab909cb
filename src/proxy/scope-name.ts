import { namedScope, type Scope } from "../core/budget.ts";
import type { KeyStore } from "../ports/key-store.ts";

/** A budget's scope as its users know it. */
export async function scopeNameOf(scope: Scope, keys: Pick<KeyStore, "findById">): Promise<string> {
  const key = scope.kind === "key" ? await keys.findById(scope.key) : undefined;
  return namedScope(scope, () => key?.name);
}
