import { readFileSync } from "node:fs";
import { join } from "node:path";
import { bundledPackages } from "../../scripts/bundled.ts";
import { checkout } from "./run-program.ts";

/** Entry of package-lock.json. */
interface LockedPackage {
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
}

/** Returns all packages that Farebox needs anywhere, with their paths. */
export function lockedPackages(): readonly (readonly [path: string, entry: LockedPackage])[] {
  const { packages } = JSON.parse(readFileSync(join(checkout, "package-lock.json"), "utf8")) as {
    packages: Record<string, LockedPackage>;
  };
  return Object.entries(packages).filter(([path]) => path !== "");
}

/** Returns the packages that a user gets, either installed or bundled. */
export function shippedPackages(): ReturnType<typeof lockedPackages> {
  const bundled = new Set(bundledPackages().map((name) => `node_modules/${name}`));
  return lockedPackages().filter(
    ([path, { dev, devOptional }]) => bundled.has(path) || (dev !== true && devOptional !== true),
  );
}
