/** Catalogue ids are bounded by the price files; this only guards against a mistake. */
export const modelsMax = 2_000;
/** Teams that have a name of their own. */
export const teamsMax = 1_000;
/** Unknown fields of requests that have a name of their own. */
export const fieldsMax = 100;
/** Price groups that have a name of their own. */
export const groupsMax = 200;
/** Remembered pairs of a key and a model whose series were started. Others start with their first charge. */
export const startedMax = 100_000;
