import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { CatalogueBuilder, CatalogueResult, PriceText } from "./build.ts";
import type { Fault, OrFaults } from "../core/fault.ts";

/**
 * Places of price files, in the order of their layers: the shipped folder, the file of a preset, and the user's folder.
 * Each overrides those before it.
 */
export interface PriceFolders {
  readonly shipped: URL | string;
  readonly preset?: URL | undefined;
  readonly user?: string | undefined;
}

export type PriceTexts = OrFaults<{ layers: readonly (readonly PriceText[])[] }>;

/**
 * Loads the shipped price files, then those of the preset and of the user's folder, which override them. Reads `*.yaml` and `*.yml`
 * in the order of their names. Faults name a shipped file with the last part of its folder's path, and a user's file
 * with the folder as given. A process that loads the same files repeatedly can pass a caching `build`.
 *
 * @example
 * const loaded = await loadCatalogue({ shipped: "pricing" });
 * if (!loaded.ok) throw new Error(loaded.faults.map(formatFault).join("\n"));
 * loaded.catalogue.find("gpt-4o-mini-2024-07-18", Date.now())?.id; // "gpt-4o-mini"
 */
export async function loadCatalogue(folders: PriceFolders, build?: CatalogueBuilder): Promise<CatalogueResult> {
  const { buildCatalogue } = await import("./build.ts");
  const layers = await readLayers(folders);
  const texts = layers.map((layer) => layer.texts);
  const unreadable = layers.flatMap(({ faults }) => faults);
  return unreadable.length === 0 ? (build ?? buildCatalogue)(texts) : buildCatalogue(texts, unreadable);
}

/** Returns the texts of all files by layer, or the faults of the files that cannot be read. */
export async function readPriceTexts(folders: PriceFolders): Promise<PriceTexts> {
  const layers = await readLayers(folders);
  const unreadable = layers.flatMap(({ faults }) => faults);
  return unreadable.length > 0
    ? { ok: false, faults: unreadable }
    : { ok: true, layers: layers.map(({ texts }) => texts) };
}

function readLayers({ shipped, preset, user }: PriceFolders): Promise<Layer[]> {
  const path = typeof shipped === "string" ? shipped : fileURLToPath(shipped);
  const reading = [readPriceFolder(path, basename(path))];
  if (preset !== undefined) {
    const file = fileURLToPath(preset);
    reading.push(readPriceFiles([{ path: file, shown: relative(dirname(path), file) }]));
  }
  if (user !== undefined) reading.push(readPriceFolder(user, user));
  return Promise.all(reading);
}

interface Layer {
  readonly texts: readonly PriceText[];
  readonly faults: readonly Fault[];
}

/** Returns the names in a folder that are not read as price files, without hidden ones; [] if it cannot be listed. */
export async function ignoredIn(folder: string): Promise<string[]> {
  const listed = await attempt(folder, () => readdir(folder));
  return listed.ok ? listed.value.filter((name) => !priceFileName.test(name) && !name.startsWith(".")).sort() : [];
}

const priceFileName = /^[^.].*\.ya?ml$/;

/** Reads the files of one folder, ordered by name. Skips hidden files, such as the lock files of editors. */
export async function readPriceFolder(folder: string, shown: string): Promise<Layer> {
  const listed = await attempt(shown, () => readdir(folder));
  if (!listed.ok) return { texts: [], faults: [listed.fault] };
  const names = listed.value.filter((name) => priceFileName.test(name)).sort();
  return await readPriceFiles(names.map((name) => ({ path: join(folder, name), shown: join(shown, name) })));
}

async function readPriceFiles(files: readonly { readonly path: string; readonly shown: string }[]): Promise<Layer> {
  const read = await Promise.all(
    files.map(async ({ path, shown }) => {
      const result = await attempt(shown, () => readFile(path, "utf8"));
      return result.ok ? { text: { name: shown, text: result.value } } : { fault: result.fault };
    }),
  );
  return {
    texts: read.flatMap((each) => ("text" in each ? [each.text] : [])),
    faults: read.flatMap((each) => ("fault" in each ? [each.fault] : [])),
  };
}

type Attempt<Value> = { readonly ok: true; readonly value: Value } | { readonly ok: false; readonly fault: Fault };

async function attempt<Value>(file: string, read: () => Promise<Value>): Promise<Attempt<Value>> {
  try {
    return { ok: true, value: await read() };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    return { ok: false, fault: { file, line: 1, column: 1, message: `cannot be read: ${reasons[code] ?? code}` } };
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist; write the path of a folder of price files",
  ENOTDIR: "it is not a folder; write the path of a folder of price files",
  EACCES: "no permission; make it readable for the user that runs Farebox",
  EISDIR: "it is a folder; price files are plain files",
};
