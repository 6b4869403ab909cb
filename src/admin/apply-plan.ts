import type { Budget } from "../core/budget.ts";
import type { Key } from "../core/keys.ts";
import type { Team } from "../core/teams.ts";
import type { Calendar } from "../ports/calendar.ts";
import { surplus, wantedChanges } from "./apply-changes.ts";
import { faultsOf, type PlanFault } from "./apply-faults.ts";
import type { ApplyFile } from "./apply-file.ts";
import { factsOf } from "./apply-facts.ts";
import type { NewBudget } from "./budgets.ts";
import type { KeyWish, NewKey } from "./keys.ts";
import type { NewTeam, TeamWish } from "./teams.ts";

/** What is there before anything is applied. */
export interface Present {
  readonly teams: readonly Team[];
  readonly keys: readonly Key[];
  readonly budgets: readonly Budget[];
}

/** What is to be asked of a use case; its name is the one that the audit has for it. */
export type Wish =
  | { readonly action: "teams.create"; readonly input: NewTeam }
  | { readonly action: "teams.update"; readonly name: string; readonly input: TeamWish }
  | { readonly action: "teams.delete"; readonly name: string }
  | { readonly action: "keys.create"; readonly input: NewKey }
  | { readonly action: "keys.update"; readonly name: string; readonly input: KeyWish }
  | { readonly action: "keys.revoke"; readonly name: string }
  | { readonly action: "budgets.set"; readonly input: NewBudget }
  | { readonly action: "budgets.remove"; readonly scope: string; readonly period: string };

/** One change, named as the audit names it. */
export interface PlannedChange {
  readonly object: string;
  /** Whether it makes the thing. */
  readonly isNew: boolean;
  /** What of the thing becomes different; of a new one, what is not the default. Empty where it goes. */
  readonly fields: readonly FieldChange[];
  readonly wish: Wish;
}

export interface FieldChange {
  readonly field: string;
  readonly before: FieldValue;
  readonly after: FieldValue;
}

export type FieldValue = string | number | readonly string[] | null;

export interface Plan {
  /** In the order in which they are to be made. */
  readonly changes: readonly PlannedChange[];
  /** What is there and not in the file, and stays because nobody asked to prune. */
  readonly kept: readonly PlannedChange[];
}

export type Planning =
  | { readonly ok: true; readonly plan: Plan }
  | { readonly ok: false; readonly faults: readonly PlanFault[] };

export interface PlanQuestion {
  readonly file: ApplyFile;
  readonly present: Present;
  readonly prune: boolean;
  /** The instant of all changes, milliseconds since 1970 UTC. */
  readonly now: number;
  /** Says when a day of `expires` begins. */
  readonly calendar: Calendar;
}

/** What it takes to make keys, teams and budgets what a sound file says. Changes nothing; a section that it lacks is left alone. */
export function planOf(question: PlanQuestion): Planning {
  const facts = factsOf(question);
  const removals = surplus(facts);
  const faults = faultsOf(facts, question.prune ? removals : []);
  if (faults.length > 0) return { ok: false, faults };
  const wanted = wantedChanges(facts);
  return {
    ok: true,
    plan: question.prune ? { changes: [...wanted, ...removals], kept: [] } : { changes: wanted, kept: removals },
  };
}
