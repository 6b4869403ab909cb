import { numberText, seriesName, type About, type Family, type Format } from "./family.ts";
import { labelText, SeriesCache } from "./labels.ts";

/** The request that an observation came from. */
interface Exemplar {
  readonly requestId: string;
  readonly value: number;
  /** Milliseconds since 1970 UTC. */
  readonly at: number;
}

/** Counts of one series by bucket, each with the last request that fell into it. */
class HistogramSeries {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  readonly #exemplars: (Exemplar | undefined)[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
    this.#exemplars = Array.from({ length: bounds.length + 1 });
  }

  observe(value: number, from?: { readonly requestId: string; readonly at: number }): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] ?? Infinity)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
    if (from !== undefined) this.#exemplars[bucket] = { requestId: from.requestId, value, at: from.at };
  }

  /** The lines of the series, whose names are given: that of the bucket without its bound. */
  text(names: SeriesNames, format: Format): string {
    let text = "";
    let total = 0;
    for (let bucket = 0; bucket < this.#counts.length; bucket++) {
      total += this.#counts[bucket] ?? 0;
      text += names.bucket + boundText(this.#bounds[bucket] ?? Infinity, format) + total;
      const exemplar = this.#exemplars[bucket];
      if (format === "openmetrics" && exemplar !== undefined) text += exemplarText(exemplar);
      text += "\n";
    }
    return `${text}${names.sum} ${numberText(this.#sum)}\n${names.count} ${total}\n`;
  }
}

interface SeriesNames {
  /** Up to the value of `le`: `name_bucket{route="x",le="` */
  readonly bucket: string;
  readonly sum: string;
  readonly count: string;
}

/** OpenMetrics has bounds as decimals with a point, so that one bound has one name. */
function boundText(bound: number, format: Format): string {
  const text = numberText(bound);
  return `${format === "openmetrics" && Number.isInteger(bound) ? `${text}.0` : text}"} `;
}

function exemplarText({ requestId, value, at }: Exemplar): string {
  return ` # {request_id="${requestId}"} ${numberText(value)} ${at / 1000}`;
}

/** Histograms with the same buckets for all series. A series starts at 0 when it is asked for. */
export class HistogramFamily implements Family {
  readonly type = "histogram";
  readonly name: string;
  readonly help: string;
  readonly #series: SeriesCache<{ readonly names: SeriesNames; readonly counts: HistogramSeries }>;

  /** `bounds` ascend. A bucket for all higher values is added. */
  constructor({
    name,
    help,
    labels,
    bounds,
  }: About & { readonly labels: readonly string[]; readonly bounds: readonly number[] }) {
    this.name = name;
    this.help = help;
    this.#series = new SeriesCache((...values) => ({
      names: namesOf(name, labelText(labels, values)),
      counts: new HistogramSeries(bounds),
    }));
  }

  of(...labels: string[]): HistogramSeries {
    return this.#series.of(...labels).counts;
  }

  *lines(format: Format): Iterable<string> {
    for (const { names, counts } of this.#series.all()) yield counts.text(names, format);
  }
}

function namesOf(name: string, labels: string): SeriesNames {
  return {
    bucket: `${name}_bucket{${labels === "" ? "" : `${labels},`}le="`,
    sum: seriesName(`${name}_sum`, labels),
    count: seriesName(`${name}_count`, labels),
  };
}
