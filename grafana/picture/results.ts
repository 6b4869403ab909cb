import type { PanelFile } from "../read.ts";

/** Series that a query returned. */
export interface Result {
  readonly labels: Readonly<Record<string, string>>;
  /** Times in seconds since 1970, each with its value. */
  readonly samples: readonly (readonly [at: number, value: number])[];
}

/** Results of a panel's queries, in the order of the queries. */
export type PanelResults = readonly (readonly Result[])[];

export interface Named {
  readonly name: string;
  readonly samples: Result["samples"];
}

/** Returns all series of a panel, with their names in the legend. */
export function namedSeries(panel: PanelFile, results: PanelResults): Named[] {
  return panel.targets.flatMap(({ legendFormat }, index) =>
    (results[index] ?? []).map(({ labels, samples }) => ({
      name: legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => labels[label] ?? ""),
      samples,
    })),
  );
}

/** Returns the newest value; null if there is none. */
export const newest = ({ samples }: Pick<Result, "samples">): number | null => samples.at(-1)?.[1] ?? null;

/** Returns the name of the color that the panel's thresholds assign to a value. */
export function colourAt(panel: PanelFile, value: number): string {
  const steps = panel.fieldConfig.defaults.thresholds?.steps ?? [];
  return steps.findLast((step) => step.value === null || value >= step.value)?.color ?? "blue";
}
