import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
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
/** Packages that a user of this one gets. */
const shipped = locked.filter(([, { dev, devOptional }]) => dev !== true && devOptional !== true);

describe("dependencies", () => {
  it("are all in the bill of materials, with version and digest", async () => {
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
  }, 30_000);
});
