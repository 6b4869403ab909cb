import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Preset } from "../core/price.ts";

/** Folder of the shipped price files. It is the same in a checkout and in a package. */
export const shippedPrices = new URL("../../pricing/", import.meta.url);

/** Returns the price file of a preset; undefined for `piapi`, because the shipped files already state its prices. */
export function presetFile(preset: Preset): URL | undefined {
  return preset === "piapi" ? undefined : new URL(`presets/${preset}.yaml`, shippedPrices);
}

/** Returns the version of this release. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/** Returns true if this code is the TypeScript of a checkout, false if it is the compiled package. */
export function isCheckout(): boolean {
  return import.meta.url.endsWith(".ts");
}

/** Folder of the dashboard's code for the browser: TypeScript in a checkout, and JavaScript in a package. */
export const dashboardFolder = fileURLToPath(new URL("../dashboard/", import.meta.url));
