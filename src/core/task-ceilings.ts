/** The families of tasks for which the account record states a ceiling of their own. */
export const taskFamilies = ["suno", "luma", "kling", "flux"] as const;
export type TaskFamily = (typeof taskFamilies)[number];

/** `all` is the ceiling of all tasks together. */
export const ceilingNames = ["all", ...taskFamilies] as const;
export type CeilingName = (typeof ceilingNames)[number];

/** Most tasks at once, as the account record states it. Null is unknown, never 0. */
export type TaskCeilings = Readonly<Record<CeilingName, number | null>>;

export type TaskCounts = Readonly<Record<CeilingName, number>>;

/** A ceiling that one more task would pass. */
export interface CeilingMet {
  readonly family: CeilingName;
  readonly limit: number;
}

interface TaskNames {
  readonly model: string;
  readonly taskType: string | null;
}

const familyNames: Readonly<Record<TaskFamily, RegExp>> = {
  suno: /suno/i,
  luma: /luma|dream[-_ ]?machine/i,
  kling: /kling/i,
  flux: /flux/i,
};

/** Returns the family that a task's model names, else its type; null for one without a ceiling of its own. */
export function familyOf({ model, taskType }: TaskNames): TaskFamily | null {
  for (const text of [model, taskType ?? ""]) {
    const found = taskFamilies.find((family) => familyNames[family].test(text));
    if (found !== undefined) return found;
  }
  return null;
}

export function countTasks(tasks: Iterable<TaskNames>): TaskCounts {
  const counts: Record<CeilingName, number> = { all: 0, suno: 0, luma: 0, kling: 0, flux: 0 };
  for (const task of tasks) {
    counts.all += 1;
    const family = familyOf(task);
    if (family !== null) counts[family] += 1;
  }
  return counts;
}

/**
 * Returns the ceiling that one more such task would exceed; null for none. A ceiling of 0 is ignored: it may mean "not
 * set", and the gateway decides.
 */
export function ceilingMet(ceilings: TaskCeilings, running: TaskCounts, task: TaskNames): CeilingMet | null {
  const family = familyOf(task);
  for (const name of family === null ? (["all"] as const) : (["all", family] as const)) {
    const limit = ceilings[name];
    if (limit !== null && limit > 0 && running[name] >= limit) return { family: name, limit };
  }
  return null;
}
