/** The two forms of a metrics page: Prometheus' own text, and OpenMetrics, which has room for exemplars. */
export type Format = "prometheus" | "openmetrics";

export interface About {
  readonly name: string;
  /** One sentence, with the unit. */
  readonly help: string;
}

/** All series of one name. */
export interface Family extends About {
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  /** The lines of one series after another, each line with its end. Read as it is written out, so values may move meanwhile. */
  lines(format: Format): Iterable<string>;
}

/** A counter's, gauge's or bucket's name with its labels, which stay as they are. */
export function seriesName(name: string, labels: string): string {
  return labels === "" ? name : `${name}{${labels}}`;
}

/** A number as both forms write it. */
export function numberText(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : String(value);
}
