import { readFileSync } from "node:fs";

/**
 * Packages whose used parts are bundled into the compiled program or the dashboard. As installed dependencies, tiktoken, zod and
 * OpenTelemetry's SDK would take much more space, and each start would load many files.
 */
export const containedPackages: readonly string[] = [
  "@opentelemetry/api",
  "@opentelemetry/core",
  "@opentelemetry/exporter-trace-otlp-proto",
  "@opentelemetry/resources",
  "@opentelemetry/sdk-trace",
  "commander",
  "express",
  "http-proxy-middleware",
  "pino",
  "js-yaml",
  "lru-cache",
  "preact",
  "prom-client",
  "temporal-polyfill",
  "tiktoken",
  "uplot",
  "zod",
];

/** Returns the names of all packages that the build puts into the package: the contained packages and their dependencies. */
export function bundledPackages(): readonly string[] {
  const lock = readFileSync(new URL("../package-lock.json", import.meta.url), "utf8");
  const { packages } = JSON.parse(lock) as {
    packages: Readonly<Record<string, { readonly dependencies?: object }>>;
  };
  const found = new Set<string>();
  const add = (name: string): void => {
    if (found.has(name)) return;
    found.add(name);
    for (const needed of Object.keys(packages[`node_modules/${name}`]?.dependencies ?? {})) add(needed);
  };
  for (const name of containedPackages) add(name);
  return [...found].toSorted();
}
