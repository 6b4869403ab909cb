import uPlot from "uplot";
import { h } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { details, div, li, span, strong, summary, td, th, tr, ul, type View } from "./dom.ts";
import { axisMoney, count, exactMoney, instant, money, percent, shareOf } from "./format.ts";
import { dataTable } from "./table.ts";
import { colour, useTheme } from "./theme.ts";
import type { Series, Usd } from "./types.ts";

/** Band of the stack. `colour` is an index into the palette; 0 is the band for all other names. */
interface Band {
  readonly name: string;
  readonly colour: number;
  readonly total: Usd;
  readonly requests: number;
  readonly values: readonly Usd[];
}

const nameless: Record<Series["by"], string> = {
  model: "no model",
  key: "without a key",
  team: "no team",
  group: "no group",
};

export function bandsOf({ by, rows, other }: Series): Band[] {
  const named = rows.map((row, index) => ({
    name: row.name ?? nameless[by],
    colour: index + 1,
    total: row.cost_usd,
    requests: row.requests,
    values: row.values,
  }));
  if (other === null) return named;
  return [
    ...named,
    {
      name: `${count(other.count)} others`,
      colour: 0,
      total: other.cost_usd,
      requests: other.requests,
      values: other.values,
    },
  ];
}

interface ChartProps {
  readonly series: Series;
  readonly total: Usd;
  readonly timeZone: string;
}

/** Shows spend over time as a stacked chart, with a legend and a table of the same figures. */
export function SpendChart({ series: read, total, timeZone }: ChartProps): View {
  // A reload usually returns the same figures. Drawing them again would close the tooltip.
  const series = useMemo(() => read, [JSON.stringify(read)]);
  const bands = useMemo(() => bandsOf(series), [series]);
  const [marked, setMarked] = useState<number | null>(null);
  const labelOf = (at: string) => instant(at, series.bucket === "day" ? "day" : "hour", timeZone);
  return div(
    { class: "chart" },
    h(Plot, { series, bands, marked, labelOf, timeZone }),
    legend(bands, total, setMarked),
    details({ class: "as-table" }, summary(null, "Show as a table"), asTable(series, bands, labelOf)),
  );
}

function legend(bands: readonly Band[], total: Usd, mark: (band: number | null) => void): View {
  return ul(
    { class: "legend", "aria-label": "Legend" },
    bands.map((band, index) =>
      li(
        { key: band.name, onMouseEnter: () => mark(index), onMouseLeave: () => mark(null) },
        span({ class: `swatch series-${band.colour}`, "aria-hidden": "true" }),
        span({ class: "legend-name" }, band.name),
        span({ class: "num", title: exactMoney(band.total) }, money(band.total)),
        span({ class: "num muted" }, percent(shareOf(band.total, total))),
      ),
    ),
  );
}

function asTable({ starts, bucket }: Series, bands: readonly Band[], labelOf: (at: string) => string): View {
  return div(
    { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Spend over time" },
    dataTable({
      caption: `Spend by ${bucket}, in US dollars`,
      class: "plain",
      rows: starts.map((start, at) => ({ start, at })),
      keyOf: ({ start }) => start,
      columns: [
        { head: bucket === "day" ? "Day" : "Hour", rowHeader: true, cell: ({ start }) => labelOf(start) },
        ...bands.map(({ name, values }) => ({
          head: name,
          class: "right",
          cellClass: "num",
          cell: ({ at }: { at: number }) => exactMoney(values[at] ?? "0"),
        })),
      ],
      foot: tr(
        null,
        th({ scope: "row" }, "Total"),
        bands.map(({ name, total }) => td({ key: name, class: "right num" }, exactMoney(total))),
      ),
    }),
  );
}

interface PlotProps {
  readonly series: Series;
  readonly bands: readonly Band[];
  readonly marked: number | null;
  readonly labelOf: (at: string) => string;
  readonly timeZone: string;
}

function Plot({ series, bands, marked, labelOf, timeZone }: PlotProps): View {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const { dark } = useTheme();
  const focus = useRef<number | null>(null);
  focus.current = marked;

  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const made = new uPlot(
      optionsFor({ series, bands, timeZone, onMove: setAt, focus }),
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

  const steer = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const last = series.starts.length - 1;
    setAt((before) => Math.min(Math.max((before ?? (step > 0 ? -1 : last + 1)) + step, 0), last));
  };
  const description = `Spend over time: ${bands.map(({ name, total }) => `${name} ${money(total)}`).join(", ")}. Use the arrow keys to move.`;
  return div(
    { class: "plot-area" },
    div({
      ref: place,
      class: "plot",
      role: "img",
      tabIndex: 0,
      "aria-label": description,
      onKeyDown: steer,
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
  const centre = plot.valToPos(at, "x") + plot.over.offsetLeft;
  const width = plot.over.clientWidth / Math.max(plot.data[0].length, 1);
  // Place the tooltip on the side of the column that has more space.
  const room = Math.min(tipWidth, plot.width);
  const beside = centre > plot.width / 2 ? centre - width / 2 - 8 - room : centre + width / 2 + 8;
  return div(
    { class: "plot-marks", role: "status" },
    div({
      class: "column",
      style: {
        left: `${centre - width / 2}px`,
        width: `${width}px`,
        top: `${plot.over.offsetTop}px`,
        height: `${plot.over.clientHeight}px`,
      },
    }),
    div(
      { class: "tip", style: { width: `${room}px`, left: `${Math.min(Math.max(beside, 0), plot.width - room)}px` } },
      div({ class: "tip-head" }, span(null, label), strong({ class: "num" }, money(String(sum)))),
      parts.length === 0
        ? div({ class: "muted" }, "Nothing was spent.")
        : parts.map(({ name, colour: which, value }) =>
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
  const places = Array.from({ length }, (_, index) => index);
  let below: number[] = places.map(() => 0);
  const tops = bands.map(({ values }) => (below = below.map((value, index) => value + Number(values[index] ?? 0))));
  return [places, ...tops];
}

interface PlotOptions {
  readonly series: Series;
  readonly bands: readonly Band[];
  readonly timeZone: string;
  readonly onMove: (at: number | null) => void;
  /** Index of the highlighted band: the pointer is on it in the legend. Null if none is. */
  readonly focus: { readonly current: number | null };
}

function optionsFor({ series, bands, timeZone, onMove, focus }: PlotOptions): uPlot.Options {
  const length = series.starts.length;
  const [text, line] = [colour("--text-3"), colour("--line")];
  const fills = bands.map((band) => colour(`--series-${band.colour}`));
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis: uPlot.Axis = { stroke: text, font, ticks: { show: false } };
  return {
    width: 600,
    height: 240,
    padding: [12, 14, 0, 0],
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
        splits: (plot) => labelled(series, plot.width, timeZone),
        values: (_, splits) => splits.map((at) => labelOn(series, at, timeZone)),
      },
      {
        ...axis,
        grid: { stroke: line, width: 1 },
        gap: 8,
        size: 56,
        space: 44,
        values: (_, splits) => axisMoney(splits),
      },
    ],
    series: [{}, ...bands.map((band) => ({ label: band.name, points: { show: false }, paths: () => null }))],
    hooks: {
      setCursor: [(plot) => onMove(plot.cursor.idx ?? null)],
      draw: [(plot) => drawStack(plot, { bands, fills, focus: focus.current })],
    },
  };
}

/** Number of hours above which only the first hour of each day has a label. */
const hoursMax = 48;

/** Chooses evenly spaced columns to label, as many as fit. */
function labelled(series: Series, width: number, timeZone: string): number[] {
  const { starts, bucket } = series;
  const room = Math.max(Math.floor(width / 84), 2);
  const all = starts.map((_, at) => at);
  const labels = all.map((at) => labelOn(series, at, timeZone));
  const candidates =
    bucket === "hour" && starts.length > hoursMax ? all.filter((at) => at > 0 && labels[at] !== labels[at - 1]) : all;
  const step = [1, 2, 3, 4, 6, 7, 14, 30].find((each) => candidates.length / each <= room) ?? candidates.length;
  return candidates.filter((_, index) => (candidates.length - 1 - index) % step === 0);
}

function labelOn({ starts, bucket }: Series, at: number, timeZone: string): string {
  const start = starts[at];
  if (start === undefined) return "";
  return instant(start, bucket === "day" || starts.length > hoursMax ? "short" : "axisHour", timeZone);
}

interface Stack {
  readonly bands: readonly Band[];
  readonly fills: readonly string[];
  readonly focus: number | null;
}

/** Draws the bands of each column upwards with a small gap, and rounds the top of the column. */
function drawStack(plot: uPlot, { bands, fills, focus }: Stack): void {
  const { ctx, data } = plot;
  const scale = devicePixelRatio;
  const column = plot.bbox.width / Math.max(data[0].length, 1);
  const bar = Math.min(column * 0.76, 48 * scale);
  const hair = column > 5 * scale ? scale : 0;
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
        ctx.globalAlpha = focus === null || focus === index ? 1 : 0.2;
        ctx.fillStyle = fills[index] ?? "";
        ctx.beginPath();
        ctx.roundRect(left, top, bar, Math.max(height - (index === 0 ? 0 : hair), Math.min(height, 0.75 * scale)), [
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
