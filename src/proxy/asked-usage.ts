import { LRUCache } from "lru-cache";
import { createHash } from "node:crypto";
import type { Clock } from "../ports/clock.ts";
import { isIdempotencyHeader } from "../wire/headers.ts";

/** How long a model is not asked for stream usage after its gateway refused it. Milliseconds. */
const refusedMs = 3_600_000;
/** Far more models than anyone uses; the oldest is forgotten. */
const modelsMax = 1000;
/** Longer names are not remembered, so that names cannot fill the memory. */
const nameUnitsMax = 256;

/** Models whose gateway answers without usage alone: it refused a request for it, and took the same request without. */
export interface UsageRefusals {
  has(route: string, model: string): boolean;
  add(route: string, model: string): void;
}

export function createUsageRefusals(clock: Clock): UsageRefusals {
  const refused = new LRUCache<string, true>({
    max: modelsMax,
    ttl: refusedMs,
    ttlResolution: 0,
    // lru-cache takes a time of 0 for none.
    perf: { now: () => clock.monotonic() + 1 },
  });
  return {
    has: (route, model) => refused.has(`${route} ${model}`),
    add(route, model) {
      if (model.length <= nameUnitsMax) refused.set(`${route} ${model}`, true);
    },
  };
}

/** Returns the headers of the second try. Its idempotency key is another one: it is another request. */
export function headersWithoutUsage(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, isIdempotencyHeader(name) ? derivedKey(value) : value]),
  );
}

function derivedKey(value: string): string {
  return createHash("sha256").update(`${value}\0without stream usage`).digest("hex");
}
