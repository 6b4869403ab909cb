// cspell:ignore gomodel bifrost
/**
 * Draws the light and the dark chart of README.md from the results of a run:
 *
 *   npm run bench -- --only plain,stream,prompt,latency,first-byte --json bench/results/requests.json
 *   npm run bench -- --only paced,held --json bench/results/streams.json
 *   node bench/chart.ts
 */
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import type { Spread } from "./statistics.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export const resultFiles = ["./results/requests.json", "./results/streams.json"];

interface ChartInput {
  readonly workloads: readonly {
    readonly name: string;
    readonly figures: Readonly<Record<string, Readonly<Record<string, Spread | null>>>>;
  }[];
}

const rows = [
  ["nginx", "nginx"],
  ["bare", "Express + http-proxy-middleware"],
  ["undici", "Farebox, engine undici"],
  ["farebox", "Farebox"],
  ["portkey", "Portkey’s gateway"],
  ["litellm", "LiteLLM’s proxy"],
  ["gomodel", "GoModel"],
  ["bifrost", "Bifrost"],
] as const;

const panels = [
  { workload: "plain", figure: "cpuUs", title: "CPU for a plain request", unit: "µs" },
  { workload: "stream", figure: "cpuUs", title: "CPU for a stream of 200 chunks", unit: "µs" },
  { workload: "latency", figure: "addedP50", title: "Latency added, one client, median", unit: "µs" },
  { workload: "held", figure: "heldKb", title: "Memory for a stream held open", unit: "kB" },
] as const;

const themes = {
  light: { text: "#1f2328", soft: "#59636e", line: "#d1d9e0", other: "#8c959f", ours: "#0969da", back: "#ffffff" },
  dark: { text: "#f0f6fc", soft: "#9198a1", line: "#3d444d", other: "#6e7681", ours: "#4493f8", back: "#0d1117" },
} as const;
type Theme = (typeof themes)[keyof typeof themes];

const size = { width: 880, panel: 176, row: 22, label: 218, value: 68, top: 8 } as const;

interface Bar {
  readonly label: string;
  readonly value: number;
  readonly isOurs: boolean;
}

interface Panel {
  readonly title: string;
  readonly unit: string;
  readonly bars: readonly Bar[];
}

/** Merges the results of several runs. */
export function readResults(files: readonly string[]): ChartInput {
  return { workloads: files.flatMap((file) => (JSON.parse(readFileSync(file, "utf8")) as ChartInput).workloads) };
}

/** Returns the panels to draw, without targets that were not measured. */
export function panelsOf({ workloads }: ChartInput): Panel[] {
  return panels.map(({ workload, figure, title, unit }) => {
    const figures = workloads.find(({ name }) => name === workload)?.figures ?? {};
    const bars = rows.flatMap(([name, label]) => {
      const spread = figures[name]?.[figure];
      return spread == null ? [] : [{ label, value: spread.median, isOurs: name === "farebox" || name === "undici" }];
    });
    return { title, unit, bars };
  });
}

/** Describes the chart in words, for screen readers. */
export function descriptionOf(all: readonly Panel[]): string {
  return all
    .map(
      ({ title, unit, bars }) =>
        `${title}: ${bars.map(({ label, value }) => `${label} ${numberText(value)} ${unit}`).join(", ")}.`,
    )
    .join(" ");
}

function numberText(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function panelAt({ title, unit, bars }: Panel, y: number, theme: Theme): string {
  const most = Math.max(...bars.map(({ value }) => value), 1);
  const room = size.width - size.label - size.value - 16;
  const lines = bars.map(({ label, value, isOurs }, index) => {
    const top = y + 30 + index * size.row;
    const width = Math.max(2, (Math.max(0, value) / most) * room);
    const weight = isOurs ? ' font-weight="600"' : "";
    return `<text x="${size.label - 8}" y="${top + 12}" text-anchor="end" fill="${theme.text}"${weight}>${label}</text>
<rect x="${size.label}" y="${top}" width="${width.toFixed(1)}" height="15" rx="2" fill="${isOurs ? theme.ours : theme.other}"/>
<text x="${(size.label + width + 7).toFixed(1)}" y="${top + 12}" fill="${isOurs ? theme.text : theme.soft}"${weight}>${numberText(value)} ${unit}</text>`;
  });
  return `<text x="${size.label}" y="${y + 18}" fill="${theme.text}" font-weight="600">${title}</text>
<line x1="${size.label}" y1="${y + 26}" x2="${size.label}" y2="${y + 30 + bars.length * size.row}" stroke="${theme.line}"/>
${lines.join("\n")}`;
}

export function chart(all: readonly Panel[], theme: Theme): string {
  const height = size.top + all.length * size.panel + 4;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${height}" viewBox="0 0 ${size.width} ${height}" role="img" aria-labelledby="title desc" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="13">
<title id="title">CPU, latency and memory of Farebox and other proxies; shorter bars are better</title>
<desc id="desc">${descriptionOf(all)}</desc>
<rect width="${size.width}" height="${height}" rx="6" fill="${theme.back}"/>
${all.map((panel, index) => panelAt(panel, size.top + index * size.panel, theme)).join("\n")}
</svg>
`;
}

if (import.meta.main) {
  const { positionals } = parseArgs({ allowPositionals: true });
  const all = panelsOf(readResults(positionals.length > 0 ? positionals : resultFiles.map(here)));
  for (const [name, theme] of Object.entries(themes))
    writeFileSync(here(`../docs/images/bench-${name}.svg`), chart(all, theme));
  console.log(descriptionOf(all));
}
