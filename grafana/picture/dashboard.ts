import { Resvg } from "@resvg/resvg-js";
import type { DashboardFile, PanelFile } from "../read.ts";
import { drawBars, drawFigure, drawTable } from "./figures.ts";
import { drawLines } from "./lines.ts";
import type { PanelResults } from "./results.ts";
import { colours, fitted, font, placed, rectangle, text } from "./svg.ts";

/** Pixels. */
const pageWidth = 1_440;
const margin = 10;
const gap = 8;
const rowHeight = 32;
const headHeight = 58;
const titleHeight = 30;

const draw = { stat: drawFigure, bargauge: drawBars, timeseries: drawLines, table: drawTable } as const;

/** Draws a dashboard with its answers. `note` describes the picture below the title. */
export function svgOf(dashboard: DashboardFile, results: (panel: PanelFile) => PanelResults, note: string): string {
  const rows = Math.max(...dashboard.panels.map(({ gridPos: { y, h } }) => y + h));
  const height = headHeight + rows * rowHeight + margin;
  const panels = dashboard.panels.map((panel) => {
    const { x, y, w, h } = panel.gridPos;
    const column = (pageWidth - 2 * margin + gap) / 24;
    return placed(
      margin + x * column,
      headHeight + y * rowHeight,
      w * column - gap,
      h * rowHeight - gap,
      framed(panel, results(panel)),
    );
  });
  const head = [
    rectangle(0, 0, pageWidth, height, colours.page),
    text(margin + 4, 27, dashboard.title, { size: 19, bold: true }),
    text(margin + 4, 47, note, { size: 12, fill: colours.faint }),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${pageWidth}" height="${height}">${[...head, ...panels].join("")}</svg>`;
}

function framed(panel: PanelFile, results: PanelResults): string {
  const width = (panel.gridPos.w * (pageWidth - 2 * margin + gap)) / 24 - gap;
  const height = panel.gridPos.h * rowHeight - gap;
  const empty = results.every((series) => series.length === 0) && panel.type !== "stat";
  const inside = [width, height - titleHeight - 6] as const;
  return [
    rectangle(0.5, 0.5, width - 1, height - 1, colours.panel, { rx: 3, stroke: colours.border }),
    text(10, 20, fitted(panel.title, 13, width - 16), { size: 13, bold: true }),
    placed(
      0,
      titleHeight,
      ...inside,
      empty
        ? text(inside[0] / 2, inside[1] / 2, panel.fieldConfig.defaults.noValue ?? "No data", {
            size: 14,
            fill: colours.faint,
            anchor: "middle",
          })
        : draw[panel.type](panel, results, ...inside),
    ),
  ].join("");
}

export const pngOf = (svg: string): Buffer =>
  new Resvg(svg, { font: { loadSystemFonts: true, defaultFontFamily: font } }).render().asPng();
