import type { Query } from "../queries/query.ts";
import { samples } from "./account-samples.ts";
import { admins } from "./admins.ts";
import { budgets } from "./budgets.ts";
import { keys } from "./keys.ts";
import { outbox } from "./outbox.ts";
import { sessions } from "./run-sessions.ts";
import { callbacks } from "./task-callbacks.ts";
import { tasks } from "./tasks.ts";
import { teams } from "./teams.ts";

/** Small tables by name, as `run` commands use it. */
export const tables = { admins, budgets, callbacks, keys, outbox, samples, sessions, tasks, teams };

type Tables = typeof tables;
type Methods<Name extends keyof Tables> = Tables[Name]["queries"] & Tables[Name]["writes"];
type ResultOf<Method> = Method extends (...args: never) => Query<infer Result> ? Result : never;

/** Port of a small table: the database answers queries, the queue takes writes. */
export type Bound<Name extends keyof Tables> = {
  [Method in keyof Methods<Name>]: Methods<Name>[Method] extends (...args: infer Args) => Query<infer Result>
    ? (...args: Args) => Promise<Result>
    : never;
};

/** Name of a write: "admins.create". */
export type WriteName = {
  [Name in keyof Tables]: `${Name}.${keyof Tables[Name]["writes"] & string}`;
}[keyof Tables];
type Write<Name extends WriteName> = Name extends `${infer Table extends keyof Tables}.${infer Method}`
  ? Tables[Table]["writes"][Method & keyof Tables[Table]["writes"]]
  : never;

/** Runs a write of a small table. */
export type RunCommand = {
  [Name in WriteName]: readonly [op: "run", write: Name, args: Parameters<Write<Name>>];
}[WriteName];
export type RunReply<Name extends WriteName> = ResultOf<Write<Name>>;

/** Returns the query of a write, and a test of its result: true if other processes must be notified. */
export function stepsOf([, name, args]: RunCommand): {
  readonly steps: Query<RunReply<WriteName>>;
  readonly isAnnounced: (result: unknown) => boolean;
} {
  const [table, method] = name.split(".") as [keyof Tables, string];
  const { writes, announces } = tables[table];
  const write = writes[method as keyof typeof writes] as (...args: unknown[]) => Query<RunReply<WriteName>>;
  return {
    steps: write(...args),
    isAnnounced: (result) => (typeof announces === "function" ? announces(result) : announces),
  };
}
