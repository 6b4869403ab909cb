import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The price files that came with this release; the same place in a checkout and in a package. */
export const shippedPrices = new URL("../../pricing/", import.meta.url);

/** This release's version. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/** Returns true for the TypeScript of a checkout, false for the compiled package. */
export function isCheckout(): boolean {
  return import.meta.url.endsWith(".ts");
}

/** Folder of the dashboard's browser side: TypeScript in a checkout, compiled in a package. */
export const dashboardFolder = fileURLToPath(new URL("../dashboard/", import.meta.url));
