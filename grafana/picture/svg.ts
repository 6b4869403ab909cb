/** Approximation of Grafana's dark theme. */
export const colours = {
  page: "#111217",
  panel: "#181b1f",
  border: "#2c3235",
  text: "#d5d6dd",
  faint: "#9a9ba5",
  grid: "#2a2d33",
  track: "#22252b",
  named: { green: "#73bf69", yellow: "#f2cc0c", red: "#f2495c", blue: "#5794f2" } as Readonly<Record<string, string>>,
  series: [
    "#73bf69",
    "#f2cc0c",
    "#5794f2",
    "#ff780a",
    "#f2495c",
    "#b877d9",
    "#8ab8ff",
    "#37872d",
    "#ffb357",
    "#a16ee0",
    "#96d98d",
    "#c4162a",
  ],
} as const;

export const font = "DejaVu Sans";

/** Estimates the width of a text in pixels: DejaVu Sans has wide letters. */
export const widthOf = (text: string, size: number) => text.length * size * 0.6;

/** Cuts a text that does not fit, with an ellipsis. */
export function fitted(text: string, size: number, width: number): string {
  const room = Math.floor(width / (size * 0.6));
  return text.length <= room ? text : `${text.slice(0, Math.max(1, room - 1))}…`;
}

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

const attributes = (values: Readonly<Record<string, string | number>>) =>
  Object.entries(values)
    .map(([name, value]) => ` ${name}="${escaped(String(value))}"`)
    .join("");

export interface TextStyle {
  readonly size: number;
  readonly fill?: string;
  readonly bold?: boolean;
  readonly anchor?: "start" | "middle" | "end";
}

/** `y` is the baseline. */
export const text = (
  x: number,
  y: number,
  content: string,
  { size, fill = colours.text, bold = false, anchor = "start" }: TextStyle,
) =>
  `<text${attributes({ x, y, fill, "font-family": font, "font-size": size, "text-anchor": anchor, ...(bold && { "font-weight": "bold" }) })}>${escaped(content)}</text>`;

export const rectangle = (
  x: number,
  y: number,
  width: number,
  height: number,
  fill: string,
  more: Readonly<Record<string, string | number>> = {},
) => `<rect${attributes({ x, y, width: Math.max(0, width), height, fill, ...more })}/>`;

/** Moves content to a position. */
export const placed = (x: number, y: number, width: number, height: number, content: string) =>
  `<svg${attributes({ x, y, width, height })}>${content}</svg>`;
