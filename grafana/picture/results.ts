import type { PanelFile } from "../read.ts";

/** One series that a query gave. */
export interface Result {
  readonly labels: Readonly<Record<string, string>>;
  /** Seconds since 1970, and the value there. */
  readonly samples: readonly (readonly [at: number, value: number])[];
}

/** The answers to a panel's queries, in their order. */
export type PanelResults = readonly (readonly Result[])[];

export interface Named {
  readonly name: string;
  readonly samples: Result["samples"];
}

/** All series of a panel under the names of its legend. */
export function namedSeries(panel: PanelFile, results: PanelResults): Named[] {
  return panel.targets.flatMap(({ legendFormat }, index) =>
    (results[index] ?? []).map(({ labels, samples }) => ({
      name: legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => labels[label] ?? ""),
      samples,
    })),
  );
}

/** Returns the newest value, or null without any. */
export const newest = ({ samples }: Pick<Result, "samples">): number | null => samples.at(-1)?.[1] ?? null;

/** The colour's name that the panel's thresholds give a value. */
export function colourAt(panel: PanelFile, value: number): string {
  const steps = panel.fieldConfig.defaults.thresholds?.steps ?? [];
  return steps.findLast((step) => step.value === null || value >= step.value)?.color ?? "blue";
}
