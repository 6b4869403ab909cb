import { LedgerUnavailable } from "../../ports/ledger.ts";
import type { CommandSink } from "../queue.ts";
import type { Query } from "../queries/query.ts";
import { tables, type Bound, type RunCommand } from "./tables.ts";

/** Runs a query of a small table. */
export type RunQuery = <T>(query: Query<T>) => Promise<T>;

/** Creates the port of a small table. */
export function bind<Name extends keyof typeof tables>(name: Name, query: RunQuery, queue: CommandSink): Bound<Name> {
  const { queries, writes, unavailable = {} }: AnyTable = tables[name];
  const bound: Record<string, (...args: never[]) => Promise<unknown>> = {};
  for (const [method, steps] of Object.entries(queries)) bound[method] = (...args) => query(steps(...args));
  for (const method of Object.keys(writes))
    bound[method] = async (...args) => {
      const answer = await queue.submit(["run", `${name}.${method}`, args] as unknown as RunCommand);
      if (answer.ok) return answer.reply;
      if (method in unavailable) return unavailable[method];
      throw new LedgerUnavailable(answer.message);
    };
  return bound as Bound<Name>;
}

interface AnyTable {
  readonly queries: Readonly<Record<string, (...args: never[]) => Query<unknown>>>;
  readonly writes: Readonly<Record<string, (...args: never[]) => Query<unknown>>>;
  readonly unavailable?: Readonly<Record<string, unknown>>;
}
