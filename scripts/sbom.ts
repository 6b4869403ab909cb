import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { bundledPackages } from "./bundled.ts";

/**
 * CycloneDX document. This script prints a document of the packages in the lock file that a user installs. `npm sbom --omit=dev`
 * would also omit packages that both a runtime and a development dependency need. So the script itself removes development
 * packages, except those that the build puts into the package.
 */
interface Bill {
  metadata: { component: { "bom-ref": string; name: string } };
  components: { "bom-ref": string; name: string; version: string; properties?: { name: string; value: string }[] }[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

const root = fileURLToPath(new URL("..", import.meta.url));
const text = execFileSync("npm", ["sbom", "--sbom-format=cyclonedx", "--package-lock-only"], {
  cwd: root,
  encoding: "utf8",
  maxBuffer: 64 * 1024 * 1024,
});
const bill = JSON.parse(text) as Bill;
bill.metadata.component.name = (JSON.parse(readFileSync(`${root}/package.json`, "utf8")) as { name: string }).name;
const { packages } = JSON.parse(readFileSync(`${root}/package-lock.json`, "utf8")) as {
  packages: Readonly<Record<string, { readonly version: string }>>;
};
// Compare with the version, because another version of a bundled package may be a development package.
const bundled = new Set(bundledPackages().map((name) => `${name}@${packages[`node_modules/${name}`]?.version}`));
const isDevelopment = ({ name, version, properties }: Bill["components"][number]) =>
  !bundled.has(`${name}@${version}`) &&
  (properties?.some((property) => property.name === "cdx:npm:package:development") ?? false);
const components = bill.components.filter((component) => !isDevelopment(component));
const shipped = new Set([bill.metadata.component["bom-ref"], ...components.map((component) => component["bom-ref"])]);
const dependencies = bill.dependencies
  .filter(({ ref }) => shipped.has(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => shipped.has(other)) }));
process.stdout.write(`${JSON.stringify({ ...bill, components, dependencies }, null, 2)}\n`);
