import { writeFileSync } from "node:fs";
import { dashboardFiles, exactFiles } from "./all.ts";

/** Writes the dashboards that are built from this folder. */
for (const [folder, files] of [
  ["dashboards", dashboardFiles],
  ["exact", exactFiles],
] as const) {
  for (const [name, text] of files) writeFileSync(new URL(`../${folder}/${name}`, import.meta.url), text);
}
