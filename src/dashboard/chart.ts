import uPlot from "uplot";
import { h } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { a, classes, details, div, li, p, span, strong, summary, td, th, tr, ul, type View } from "./dom.ts";
import { axisMoney, count, csvOf, difference, exactMoney, instant, money, percent, shareOf } from "./format.ts";
import { icon } from "./icons.ts";
import { addressOf, goTo } from "./location.ts";
import { dataTable, figures } from "./table.ts";
import { color, useTheme } from "./theme.ts";
import type { Grouping, OverviewJson, Series, Usd } from "./types.ts";
import { link } from "./ui.ts";
import { groupingNames } from "./views/labels.ts";

/** Band of the stacked chart. `color` is an index into the palette; 0 is the color of the band for all other names. */
interface Band {
  readonly name: string;
  readonly color: number;
  readonly cost_usd: Usd;
  readonly values: readonly Usd[];
  /** Name in the ledger; null for charges without a name, undefined for the band of all other names. */
  readonly of: string | null | undefined;
  readonly parts: NonNullable<Series["rows"][number]["parts"]>;
}

const nameless: Record<Series["by"], string> = {
  model: "no model",
  key: "without a key",
  team: "no team",
  group: "no group",
};

function bandsOf({ by, rows, other }: Series): Band[] {
  const named = rows.map((row, index) => ({
    ...row,
    name: row.name ?? nameless[by],
    of: row.name,
    color: index + 1,
    parts: row.parts ?? [],
  }));
  return other === null
    ? named
    : [...named, { ...other, name: `${count(other.count)} others`, of: undefined, color: 0, parts: [] }];
}

interface ChartProps {
  readonly series: Series;
  readonly total: Usd;
  readonly timeZone: string;
  /** Returns the address of the list of requests in a band and a time range. A name of undefined means all bands. */
  readonly requestsOf: RequestsOf;
}

type RequestsOf = (name: string | null | undefined, bounds: { since?: string; until?: string }) => string;

/**
 * Shows the spend in an overview as a chart. Its columns and the names in its legend link to requests that match
 * `filter`.
 */
export function spendChart(
  { span: { requests, cost_usd: total, since, until }, series, time_zone: timeZone }: OverviewJson,
  filter: Readonly<Record<string, string | null>>,
): View {
  if (requests === 0) return p({ class: "hint quiet" }, "No requests in this time.");
  const requestsOf = requestsIn({ since, until, ...filter }, series.by);
  return h(SpendChart, { series, total, timeZone, requestsOf });
}

/** Returns the function that builds the addresses of the requests in a chart. */
function requestsIn(filter: Readonly<Record<string, string | null>>, by: Series["by"]): RequestsOf {
  return (name, bounds) => {
    const named = name === undefined ? {} : name === null ? { without: by } : { [by]: name };
    return addressOf("requests", { ...filter, ...bounds, ...named });
  };
}

/**
 * Shows spend over time as a stacked chart, with a legend and a table of the same figures. The columns and the names in
 * the legend link to their requests.
 */
function SpendChart({ series: read, total, timeZone, requestsOf }: ChartProps): View {
  // A reload usually returns the same figures. Drawing them again would close the tooltip.
  const series = useMemo(() => read, [JSON.stringify(read)]);
  const bands = useMemo(() => bandsOf(series), [series]);
  const [marked, setMarked] = useState<number | null>(null);
  const labelOf = (start: string) => instant(start, series.bucket, timeZone);
  const open = (at: number, band: Band | undefined) => {
    const [since, until] = [series.starts[at], series.starts[at + 1]];
    goTo(requestsOf(band?.of, { ...(since !== undefined && { since }), ...(until !== undefined && { until }) }));
  };
  return div(
    { class: "chart" },
    h(Plot, { series, bands, marked, labelOf, timeZone, open }),
    legend({ series, bands, total, mark: setMarked, requestsOf: (name) => requestsOf(name, {}) }),
    details(
      { class: "as-table" },
      summary(null, "Show as a table"),
      csvLink("spend.csv", timeRows(series, bands)),
      asTable(series, bands, labelOf),
      series.then_by !== null && partsSheet(series, series.then_by, bands, total),
    ),
  );
}

interface LegendProps {
  readonly series: Series;
  readonly bands: readonly Band[];
  readonly total: Usd;
  readonly mark: (band: number | null) => void;
  readonly requestsOf: (name: string | null) => string;
}

function legend({ series, bands, total, mark, requestsOf }: LegendProps): View {
  return ul(
    { class: classes("legend", series.then_by !== null && "divided"), "aria-label": "Legend" },
    bands.map(({ name, color: which, cost_usd: usd, of, parts }, index) => {
      return li(
        { key: name, onMouseEnter: () => mark(index), onMouseLeave: () => mark(null) },
        span({ class: `swatch series-${which}`, "aria-hidden": "true" }),
        span({ class: "legend-name" }, of === undefined ? name : link(requestsOf(of), name)),
        span({ class: "num", title: exactMoney(usd) }, money(usd)),
        span({ class: "num muted" }, percent(shareOf(usd, total))),
        parts.length > 0 &&
          ul(
            { class: "parts", "aria-label": `Parts of ${name}` },
            parts.map((part) =>
              li(
                { key: part.name },
                span({ class: "legend-name" }, part.name ?? nameless[series.then_by ?? series.by]),
                span({ class: "num", title: exactMoney(part.cost_usd) }, money(part.cost_usd)),
              ),
            ),
          ),
      );
    }),
  );
}

/** Returns a link that downloads rows as CSV. */
function csvLink(download: string, rows: readonly (readonly string[])[]): View {
  const href = `data:text/csv;charset=utf-8,${encodeURIComponent(csvOf(rows))}`;
  return a({ class: "button small", href, download }, icon("download"), "CSV");
}

/** Returns the figures of the chart as rows of text. Amounts are exact, and the start of each column is an instant. */
function timeRows({ starts, bucket }: Series, bands: readonly Band[]): string[][] {
  const rows = starts.map((start, at) => [start, ...bands.map(({ values }) => values[at] ?? "0")]);
  return [[bucket, ...bands.map(({ name }) => name)], ...rows];
}

const heads: Record<Series["bucket"], string> = { hour: "Hour", day: "Day", month: "Month" };

function asTable({ starts, bucket }: Series, bands: readonly Band[], labelOf: (start: string) => string): View {
  return div(
    { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Spend over time" },
    dataTable({
      caption: `Spend by ${bucket}, in US dollars`,
      class: "plain",
      rows: starts.map((start, at) => ({ start, at })),
      keyOf: ({ start }) => start,
      columns: [
        { head: heads[bucket], rowHeader: true, cell: ({ start }) => labelOf(start) },
        ...bands.map(({ name, values }) => figures<{ at: number }>(name, ({ at }) => exactMoney(values[at] ?? "0"))),
      ],
      foot: tr(
        null,
        th({ scope: "row" }, "Total"),
        bands.map(({ name, cost_usd: usd }) => td({ key: name, class: "right num" }, exactMoney(usd))),
      ),
    }),
  );
}

/** Shows the parts of all bands as a table that adds up to `total`, with a link that downloads them as CSV. */
function partsSheet({ by }: Series, thenBy: Grouping, bands: readonly Band[], total: Usd): View {
  const [first, second] = [groupingNames[by], groupingNames[thenBy]];
  const rows = bands.flatMap((band) => partsOf(band, thenBy)).map((row, at) => ({ ...row, at }));
  const caption = `By ${by}, then by ${thenBy}`;
  return div(
    null,
    csvLink(`spend-by-${by}-and-${thenBy}.csv`, [
      [by, thenBy, "cost_usd"],
      ...rows.map(({ band, part, usd }) => [band, part, usd]),
    ]),
    div(
      { class: "scroll", tabIndex: 0, role: "region", "aria-label": `Spend ${caption.toLowerCase()}` },
      dataTable({
        caption,
        captionClass: "tier",
        class: "plain",
        rows,
        keyOf: ({ at }) => String(at),
        columns: [
          { head: first, rowHeader: true, cell: ({ band }) => band },
          { head: second, cell: ({ part }) => part },
          figures<{ usd: Usd }>("Cost", ({ usd }) => exactMoney(usd)),
        ],
        foot: tr(null, th({ scope: "row", colSpan: 2 }, "Total"), td({ class: "right num" }, exactMoney(total))),
      }),
    ),
  );
}

/** Returns the parts of a band. The last part is the rest of the band, so that the parts add up to the band. */
function partsOf({ name: band, of, cost_usd: usd, parts }: Band, thenBy: Grouping) {
  const named = parts.map((part) => ({ band, part: part.name ?? nameless[thenBy], usd: part.cost_usd }));
  const rest = difference(usd, ...parts.map((part) => part.cost_usd));
  return Number(rest) === 0 ? named : [...named, { band, part: of === undefined ? "all" : "others", usd: rest }];
}

interface PlotProps {
  readonly series: Series;
  readonly bands: readonly Band[];
  readonly marked: number | null;
  readonly labelOf: (start: string) => string;
  readonly timeZone: string;
  /** Opens the list of requests in a column, or in one band of the column. */
  readonly open: (at: number, band: Band | undefined) => void;
}

function Plot({ series, bands, marked, labelOf, timeZone, open }: PlotProps): View {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const { dark } = useTheme();
  const markedNow = useRef<number | null>(null);
  markedNow.current = marked;

  useEffect(() => {
    const element = container.current;
    if (element === null) return undefined;
    const made = new uPlot(
      optionsFor({ series, bands, timeZone, onMove: setAt, marked: markedNow }),
      columnsOf(bands, series.starts.length),
      element,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize(sizeOf(element)));
    watcher.observe(element);
    made.setSize(sizeOf(element));
    return () => {
      watcher.disconnect();
      made.destroy();
      setAt(null);
    };
  }, [series, bands, timeZone, dark]);
  useEffect(() => plot.current?.redraw(false), [marked]);

  const openBand = () => {
    const { current } = plot;
    const { idx, top = -1 } = current?.cursor ?? {};
    if (current === null || idx === null || idx === undefined) return;
    const value = current.posToVal(top, "y");
    open(idx, value < 0 ? undefined : bands.find((_, band) => (current.data[band + 1]?.[idx] ?? 0) >= value));
  };
  const steer = (event: KeyboardEvent) => {
    if (event.key === "Enter" && at !== null) return open(at, undefined);
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const last = series.starts.length - 1;
    setAt((before) => Math.min(Math.max((before ?? (step > 0 ? -1 : last + 1)) + step, 0), last));
  };
  const description = `Spend over time: ${bands.map(({ name, cost_usd: usd }) => `${name} ${money(usd)}`).join(", ")}. Use the arrow keys to move, and Enter to see the requests.`;
  return div(
    { class: "plot-area" },
    div({
      ref: container,
      class: "plot",
      role: "img",
      tabIndex: 0,
      "aria-label": description,
      onKeyDown: steer,
      onClick: openBand,
      onBlur: () => setAt(null),
    }),
    at !== null && plot.current !== null && tooltip(plot.current, at, bands, labelOf(series.starts[at] ?? "")),
  );
}

function sizeOf(element: HTMLElement): { width: number; height: number } {
  return { width: Math.max(element.clientWidth, 200), height: Math.max(element.clientHeight, 160) };
}

const tipWidth = 232;

function tooltip(plot: uPlot, at: number, bands: readonly Band[], label: string): View {
  const parts = bands
    .map((band) => ({ ...band, value: band.values[at] ?? "0" }))
    .filter(({ value }) => Number(value) !== 0);
  const sum = bands.reduce((total, { values }) => total + Number(values[at] ?? 0), 0);
  const center = plot.valToPos(at, "x") + plot.over.offsetLeft;
  const width = plot.over.clientWidth / Math.max(plot.data[0].length, 1);
  // Place the tooltip on the side of the column that has more space.
  const tipSize = Math.min(tipWidth, plot.width);
  const left = center > plot.width / 2 ? center - width / 2 - 8 - tipSize : center + width / 2 + 8;
  return div(
    { class: "plot-marks", role: "status" },
    div({
      class: "column",
      style: {
        left: `${center - width / 2}px`,
        width: `${width}px`,
        top: `${plot.over.offsetTop}px`,
        height: `${plot.over.clientHeight}px`,
      },
    }),
    div(
      {
        class: "tip",
        style: { width: `${tipSize}px`, left: `${Math.min(Math.max(left, 0), plot.width - tipSize)}px` },
      },
      div({ class: "tip-head" }, span(null, label), strong({ class: "num" }, money(String(sum)))),
      parts.length === 0
        ? div({ class: "muted" }, "Nothing was spent.")
        : parts.map(({ name, color: which, value }) =>
            div(
              { key: name, class: "tip-row" },
              span({ class: `swatch series-${which}` }),
              span({ class: "legend-name" }, name),
              span({ class: "num" }, money(value)),
            ),
          ),
    ),
  );
}

/** Returns the data for uPlot: the indexes of the columns, then the top of each band in every column. */
function columnsOf(bands: readonly Band[], length: number): uPlot.AlignedData {
  const indexes = Array.from({ length }, (_, index) => index);
  let below: number[] = indexes.map(() => 0);
  const tops = bands.map(({ values }) => (below = below.map((value, index) => value + Number(values[index] ?? 0))));
  return [indexes, ...tops];
}

interface PlotOptions {
  readonly series: Series;
  readonly bands: readonly Band[];
  readonly timeZone: string;
  readonly onMove: (at: number | null) => void;
  /** Index of the highlighted band, whose row in the legend is under the pointer; null for none. */
  readonly marked: { readonly current: number | null };
}

function optionsFor({ series, bands, timeZone, onMove, marked }: PlotOptions): uPlot.Options {
  const length = series.starts.length;
  const [text, line] = [color("--text-3"), color("--line")];
  const fills = bands.map((band) => color(`--series-${band.color}`));
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const ruler = document.createElement("canvas").getContext("2d");
  if (ruler !== null) ruler.font = font;
  const widthOf = (label: string) => Math.ceil(ruler?.measureText(label).width ?? 42);
  const axis: uPlot.Axis = { stroke: text, font, ticks: { show: false } };
  return {
    width: 600,
    height: 240,
    padding: [12, 28, 0, 0],
    legend: { show: false },
    cursor: { x: false, y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { time: false, range: [-0.5, length - 0.5] },
      y: { range: (_, __, top) => [0, top > 0 ? top * 1.04 : 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        gap: 8,
        size: 30,
        splits: (plot) => columnsToLabel(series, plot.width, timeZone),
        values: (_, splits) => splits.map((at) => labelOn(series, at, timeZone)),
      },
      {
        ...axis,
        grid: { stroke: line, width: 1 },
        gap: 8,
        size: (_, values) => Math.max(...(values ?? []).map(widthOf), 24) + 14,
        space: 44,
        values: (_, splits) => axisMoney(splits),
      },
    ],
    series: [{}, ...bands.map((band) => ({ label: band.name, points: { show: false }, paths: () => null }))],
    hooks: {
      setCursor: [(plot) => onMove(plot.cursor.idx ?? null)],
      draw: [(plot) => drawStack(plot, { bands, fills, marked: marked.current })],
    },
  };
}

/** Largest number of hours in a chart with labels for hours. A longer chart has labels only for days. */
const hoursMax = 48;

/** Returns the indexes of the columns to label: evenly spaced, and as many as fit. */
function columnsToLabel(series: Series, width: number, timeZone: string): number[] {
  const { starts, bucket } = series;
  const labelsMax = Math.max(Math.floor(width / 84), 2);
  const all = starts.map((_, at) => at);
  const labels = all.map((at) => labelOn(series, at, timeZone));
  const candidates =
    bucket === "hour" && starts.length > hoursMax ? all.filter((at) => at > 0 && labels[at] !== labels[at - 1]) : all;
  const step = [1, 2, 3, 4, 6, 7, 14, 30].find((each) => candidates.length / each <= labelsMax) ?? candidates.length;
  return candidates.filter((_, index) => (candidates.length - 1 - index) % step === 0);
}

function labelOn({ starts, bucket }: Series, at: number, timeZone: string): string {
  const start = starts[at];
  if (start === undefined) return "";
  if (bucket === "month") return instant(start, "axisMonth", timeZone);
  return instant(start, bucket === "day" || starts.length > hoursMax ? "short" : "axisHour", timeZone);
}

interface Stack {
  readonly bands: readonly Band[];
  readonly fills: readonly string[];
  readonly marked: number | null;
}

/** Draws the bands of each column upwards with a small gap, and rounds the top of the column. */
function drawStack(plot: uPlot, { bands, fills, marked }: Stack): void {
  const { ctx, data } = plot;
  const scale = devicePixelRatio;
  const column = plot.bbox.width / Math.max(data[0].length, 1);
  const bar = Math.min(column * 0.76, 48 * scale);
  const gap = column > 5 * scale ? scale : 0;
  ctx.save();
  for (const [at] of data[0].entries()) {
    const left = plot.valToPos(at, "x", true) - bar / 2;
    let bottom = plot.valToPos(0, "y", true);
    const last = bands.findLastIndex(({ values }) => Number(values[at] ?? 0) > 0);
    for (const [index] of bands.entries()) {
      const top = plot.valToPos(data[index + 1]?.[at] ?? 0, "y", true);
      const height = bottom - top;
      if (height > 0) {
        const radius = index === last ? Math.min(3 * scale, bar / 3, height) : 0;
        ctx.globalAlpha = marked === null || marked === index ? 1 : 0.2;
        ctx.fillStyle = fills[index] ?? "";
        ctx.beginPath();
        ctx.roundRect(left, top, bar, Math.max(height - (index === 0 ? 0 : gap), Math.min(height, 0.75 * scale)), [
          radius,
          radius,
          0,
          0,
        ]);
        ctx.fill();
      }
      bottom = top;
    }
  }
  ctx.restore();
}
