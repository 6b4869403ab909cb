import type { Query } from "../queries/query.ts";
import { samples } from "./account-samples.ts";
import { admins } from "./admins.ts";
import { budgets } from "./budgets.ts";
import { dashboardSessions } from "./dashboard-sessions.ts";
import { keys } from "./keys.ts";
import { outbox } from "./outbox.ts";
import { raiseRequests } from "./raise-requests.ts";
import { refusals } from "./refusals.ts";
import { sessions } from "./run-sessions.ts";
import { streamBursts } from "./stream-bursts.ts";
import { callbacks, tasks } from "./tasks.ts";
import { teams } from "./teams.ts";
import { firstTexts } from "./first-texts.ts";

/** Small tables by the names that `run` commands use. */
export const tables = {
  admins,
  budgets,
  callbacks,
  dashboardSessions,
  keys,
  outbox,
  raiseRequests,
  refusals,
  samples,
  sessions,
  streamBursts,
  tasks,
  teams,
  firstTexts,
};

export type Tables = typeof tables;
type ResultOf<Method> = Method extends (...args: never) => Query<infer Result> ? Result : never;

/** Name of a write, such as "admins.create". */
export type WriteName = {
  [Name in keyof Tables]: `${Name}.${keyof Tables[Name]["writes"] & string}`;
}[keyof Tables];
type Write<Name extends WriteName> = Name extends `${infer Table extends keyof Tables}.${infer Method}`
  ? Tables[Table]["writes"][Method & keyof Tables[Table]["writes"]]
  : never;

/** Command that runs a write of a small table. */
export type RunCommand = {
  [Name in WriteName]: readonly [op: "run", write: Name, args: Parameters<Write<Name>>];
}[WriteName];
export type RunReply<Name extends WriteName> = ResultOf<Write<Name>>;

/**
 * Returns a write as a query. `isAnnounced` returns true if other processes must reload because of the write's result.
 */
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
