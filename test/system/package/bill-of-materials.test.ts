import { describe, expect, it } from "vitest";
import { shippedPackages } from "../../support/locked-packages.ts";
import { checkout, runWell } from "../../support/run-program.ts";

describe("the bill of materials", () => {
  it("lists exactly the shipped packages, each with its version and digest", async () => {
    const bill = JSON.parse(await runWell("npm", ["run", "--silent", "sbom"], { cwd: checkout })) as {
      bomFormat: string;
      components: { name: string; version: string; hashes?: unknown[] }[];
    };
    expect(bill.bomFormat).toBe("CycloneDX");
    const listed = new Set(bill.components.map(({ name, version }) => `${name}@${version}`));
    const wanted = shippedPackages().map(
      ([path, { version }]) => `${path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)}@${version}`,
    );
    expect([...listed].toSorted()).toEqual([...new Set(wanted)].toSorted());
    expect(bill.components.filter(({ hashes }) => (hashes?.length ?? 0) === 0)).toEqual([]);
  });
});
