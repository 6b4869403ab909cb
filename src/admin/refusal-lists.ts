import type { KeyStore } from "../ports/key-store.ts";
import type { RefusalPage, RefusalQuery, Refusals } from "../ports/refusals.ts";
import { findKeyIfNamed } from "./keys.ts";
import { failure, type Failure } from "./result.ts";

/** Returns a page of refusals. `key` in the query is a name or an id. */
export async function listRefusals(
  { refusals, keys }: { readonly refusals: Pick<Refusals, "list">; readonly keys: KeyStore },
  query: RefusalQuery,
): Promise<{ readonly ok: true; readonly page: RefusalPage } | Failure> {
  const found = await findKeyIfNamed(keys, query.key);
  if (!found.ok) return found;
  const page = await refusals.list({ ...query, key: found.key?.id });
  if (page === undefined)
    return failure("invalid", "cursor must be the cursor of an earlier list of refusals in the same order");
  return { ok: true, page };
}
