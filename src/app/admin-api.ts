import { adminRoutes } from "../http/admin/routes.ts";
import { serveAdmin, type Doors } from "../http/admin/serve-route.ts";
import type { Route } from "../http/http-app.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { Account } from "../proxy/account.ts";
import type { ProcessHealth } from "../reporting/health.ts";
import type { SpendMemory } from "../reporting/spend-memory.ts";
import type { Store } from "../store/store.ts";

/** Builds the routes of `/admin/v1` over the store. */
export function adminApi(
  parts: Doors & {
    readonly store: Store;
    readonly calendar: Calendar;
    readonly clock: Clock;
    readonly catalogue: () => Catalogue;
    readonly account: Account;
    readonly accountTtlMs: number;
    readonly version: string;
    readonly memory: SpendMemory;
    readonly process: ProcessHealth;
  },
): readonly Route[] {
  const { store, calendar, clock, catalogue, accountTtlMs, gate, dashboardSessions, memory, process } = parts;
  const { ledger, keys, teams, samples, audit, outbox, tasks } = store;
  const latest = store.figures.ledger;
  const account = async () => {
    const found = await parts.account.lookUp();
    return found.ok ? found.record : undefined;
  };
  return serveAdmin(adminRoutes(parts.version), {
    ledger,
    latest,
    keys,
    teams,
    samples,
    audit,
    outbox,
    tasks,
    clock,
    calendar,
    catalogue,
    account,
    accountTtlMs,
    gate,
    dashboardSessions,
    memory,
    process,
  });
}
