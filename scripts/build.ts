import { spawnSync } from "node:child_process";
import { cpSync, existsSync, globSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown, type Plugin, type RolldownOutput } from "rolldown";
import { buildCatalogue } from "../src/catalogue/build.ts";
import { readPriceTexts } from "../src/catalogue/load.ts";
import { prebuiltContent } from "../src/catalogue/prebuilt.ts";
import { presets } from "../src/core/price.ts";
import { priceFolders } from "../src/server/price-folders.ts";
import { bundledPackages } from "./bundled.ts";

/*
 * Builds `dist`, which the package and the image contain instead of `src`. The program is in a few files, because one file for
 * each module would start more slowly. The dashboard is one module and one style sheet, for few requests. `dist` also contains
 * the files that modules read, such as migrations, and some bundled packages (`bundled.ts`). A checkout needs no `dist`.
 */
const root = fileURLToPath(new URL("../", import.meta.url));
const pathOf = (name: string) => `${root}${name}`;

/** Modules with which a process or a thread starts. */
const entries = [
  "main",
  "catalogue/worker",
  "ledger/sqlite/worker",
  "platform/tokens/worker",
  "server/workers/process",
] as const;
const bundledNames = bundledPackages();
/** Folder of `dist` with the modules that entries share or load later. */
const chunks = "chunks";

checkTypes();
rmSync(pathOf("dist"), { recursive: true, force: true });
cpSync(pathOf("src"), pathOf("dist"), {
  recursive: true,
  filter: (path) => !path.endsWith(".ts") && !path.endsWith("tsconfig.json"),
});
for (const path of globSync("**/", { cwd: pathOf("dist") })
  .toSorted()
  .toReversed())
  if (readdirSync(pathOf(`dist/${path}`)).length === 0) rmSync(pathOf(`dist/${path}`), { recursive: true });
const contained = [...(await bundleProgram()), ...(await bundleDashboard())].toSorted();
// tiktoken reads this file from the folder of its module. The file has the tables of all encodings; each is decoded on first use.
cpSync(pathOf("node_modules/tiktoken/tiktoken_bg.wasm"), pathOf(`dist/${chunks}/tiktoken_bg.wasm`));
await prebuildPrices();
writeFileSync(pathOf("dist/licenses.txt"), contained.map(licenseOf).join("\n"));

/** Checks the types of `src`, because the bundler only removes them. */
function checkTypes(): void {
  for (const project of ["tsconfig.build.json", "src/dashboard/tsconfig.json"]) {
    const args = [pathOf("node_modules/typescript/bin/tsc"), "-p", pathOf(project), "--noEmit"];
    if (spawnSync(process.execPath, args, { stdio: "inherit" }).status !== 0) process.exit(1);
  }
}

/** Writes the dashboard as one module and one style sheet. Returns the names of the packages that it contains. */
async function bundleDashboard(): Promise<readonly string[]> {
  const bundle = await rolldown({
    cwd: root,
    platform: "browser",
    input: "src/dashboard/main.ts",
    experimental: { attachDebugInfo: "none" },
  });
  const { output } = await bundle.write({
    dir: pathOf("dist/dashboard"),
    format: "esm",
    entryFileNames: "main.js",
    comments: false,
    minify: true,
  });
  const styles = ["node_modules/uplot/dist/uPlot.min.css", "src/dashboard/style.css"];
  writeFileSync(
    pathOf("dist/dashboard/style.css"),
    styles.map((path) => readFileSync(pathOf(path), "utf8")).join("\n"),
  );
  const page = readFileSync(pathOf("src/dashboard/index.html"), "utf8");
  writeFileSync(
    pathOf("dist/dashboard/index.html"),
    page.replaceAll(/^.*\/dashboard\/vendor\/[\w-]+\.(?:js|css)".*\n/gm, ""),
  );
  return containedIn(output);
}

/** Writes the program, and returns the names of the packages that it contains. */
async function bundleProgram(): Promise<readonly string[]> {
  const bundle = await rolldown({
    cwd: root,
    platform: "node",
    input: Object.fromEntries(entries.map((name) => [name, `src/${name}.ts`])),
    external: (id) => /^[a-z@]/.test(id) && !isContained(id),
    // CommonJS modules find their files through `__dirname`.
    transform: { define: { __dirname: "import.meta.dirname" } },
    // The comments of the debug information would contain paths of this machine.
    experimental: { attachDebugInfo: "none" },
    plugins: [withoutBodyParser(), keepAddresses()],
  });
  const { output } = await bundle.write({
    dir: pathOf("dist"),
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: `${chunks}/[name].js`,
    comments: false,
  });
  for (const file of output)
    if (file.type === "chunk") writeFileSync(pathOf(`dist/${file.fileName}`), inAscii(file.code));
  return containedIn(output);
}

/** Returns the names of the packages that a bundle contains. Throws an error if `bundled.ts` does not list a package. */
function containedIn(output: RolldownOutput["output"]): readonly string[] {
  const names = output.flatMap((file) => (file.type === "chunk" ? packagesOf(file.moduleIds) : []));
  const unlisted = names.filter((name) => !bundledNames.includes(name));
  if (unlisted.length > 0)
    throw new Error(`the bundle contains packages that scripts/bundled.ts does not list: ${unlisted.join(", ")}`);
  return [...new Set(names)];
}

/** Stores the catalogue of the shipped price files with each preset, because parsing the files would delay each start. */
async function prebuildPrices(): Promise<void> {
  const all = await Promise.all(
    presets.map(async (preset) => {
      const read = await readPriceTexts(priceFolders({ preset, folder: null }));
      const built = read.ok ? buildCatalogue(read.layers) : read;
      if (!read.ok || !built.ok) throw new Error("the shipped price files have faults; run farebox prices check");
      return [read.layers, built.catalogue] as const;
    }),
  );
  writeFileSync(pathOf("dist/catalogue/shipped.bin"), prebuiltContent(all));
}

/** Keeps the address that each module has in `src`, because modules find their files relative to it. */
function keepAddresses(): Plugin {
  return {
    name: "keep-addresses",
    transform(code, id) {
      if (!id.startsWith(pathOf("src/"))) return null;
      const place = posix.relative(pathOf("src"), id).replace(/\.ts$/, ".js");
      return code.replaceAll("import.meta.url", `new URL("place:${place}", import.meta.url).href`);
    },
    renderChunk: (code, { fileName }) =>
      code.replaceAll('"place:', `"${posix.relative(posix.dirname(fileName), ".") || "."}/`),
  };
}

/** Leaves out the body parsers, with their encoding tables. Express loads these parsers, but Farebox never calls them. */
function withoutBodyParser(): Plugin {
  const empty = "\0empty";
  return {
    name: "without-body-parser",
    resolveId: (id) => (id === "body-parser" ? empty : null),
    load: (id) => (id === empty ? "export {};" : null),
  };
}

/** Escapes characters outside ASCII. V8 keeps the text of a module, and if one character needs two bytes, all take two. */
function inAscii(code: string): string {
  // oxlint-disable-next-line no-control-regex -- ASCII has them
  return code.replaceAll(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function isContained(id: string): boolean {
  return bundledNames.some((name) => id === name || id.startsWith(`${name}/`));
}

/** Returns the names of the packages that contain the modules. */
function packagesOf(modules: readonly string[]): readonly string[] {
  return modules.flatMap((path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
}

/** Returns the name, version and license of a package. */
function licenseOf(name: string): string {
  const folder = pathOf(`node_modules/${name}`);
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")) as { version: string };
  // tiktoken's package does not contain its license, but its repository does.
  const added = pathOf(`scripts/licenses/${name}.txt`);
  const own = readdirSync(folder).find((file) => /^(?:license|licence)/i.test(file)) ?? "";
  const text = readFileSync(existsSync(added) ? added : `${folder}/${own}`, "utf8");
  return `dist contains parts of ${name} ${version}:\n\n${text.trimEnd()}\n`;
}
