import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Prints what a user of the package gets as a CycloneDX document, from the lock file. npm's own `--omit=dev` leaves out
 * packages that both a run-time and a development dependency want, so the parts of development are taken out here.
 */
interface Bill {
  metadata: { component: { "bom-ref": string; name: string } };
  components: { "bom-ref": string; properties?: { name: string; value: string }[] }[];
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
const isDevelopment = ({ properties }: Bill["components"][number]) =>
  properties?.some(({ name }) => name === "cdx:npm:package:development") ?? false;
const components = bill.components.filter((component) => !isDevelopment(component));
const shipped = new Set([bill.metadata.component["bom-ref"], ...components.map((component) => component["bom-ref"])]);
const dependencies = bill.dependencies
  .filter(({ ref }) => shipped.has(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => shipped.has(other)) }));
process.stdout.write(`${JSON.stringify({ ...bill, components, dependencies }, null, 2)}\n`);
