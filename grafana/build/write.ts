import { writeFileSync } from "node:fs";
import { dashboardFiles } from "./all.ts";

/** Writes the dashboards that are built from this folder. */
for (const [name, text] of dashboardFiles) writeFileSync(new URL(`../dashboards/${name}`, import.meta.url), text);
