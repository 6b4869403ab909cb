import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { bundledPackages } from "../../../scripts/bundled.ts";
import { checkout, runWell } from "../../support/run-program.ts";

interface Locked {
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const read = (path: string) => readFileSync(join(checkout, path), "utf8");

const locked = Object.entries(
  (JSON.parse(read("package-lock.json")) as { packages: Record<string, Locked> }).packages,
).filter(([path]) => path !== "");
/** Packages contained in Farebox's own package. */
const bundled = new Set(bundledPackages().map((name) => `node_modules/${name}`));
const shipped = locked.filter(
  ([path, { dev, devOptional }]) => bundled.has(path) || (dev !== true && devOptional !== true),
);

describe("the bill of materials", () => {
  it("lists exactly the shipped packages, each with its version and digest", async () => {
    const bill = JSON.parse(await runWell("npm", ["run", "--silent", "sbom"], { cwd: checkout })) as {
      bomFormat: string;
      components: { name: string; version: string; hashes?: unknown[] }[];
    };
    expect(bill.bomFormat).toBe("CycloneDX");
    const listed = new Set(bill.components.map(({ name, version }) => `${name}@${version}`));
    const wanted = shipped.map(
      ([path, { version }]) => `${path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)}@${version}`,
    );
    expect([...listed].toSorted()).toEqual([...new Set(wanted)].toSorted());
    expect(bill.components.filter(({ hashes }) => (hashes?.length ?? 0) === 0)).toEqual([]);
  });
});
