import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { CatalogueBuilder, CatalogueResult, PriceText } from "./build.ts";
import type { Fault, OrFaults } from "../core/fault.ts";

/** Folders of price files: the shipped folder, and the user's folder, whose files override the shipped ones. */
export interface PriceFolders {
  readonly shipped: URL | string;
  readonly user?: string | undefined;
}

export type PriceTexts = OrFaults<{ layers: readonly (readonly PriceText[])[] }>;

/**
 * Loads the shipped price files, then the files of the user's folder, which override them. Reads `*.yaml` and `*.yml`
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

function readLayers({ shipped, user }: PriceFolders): Promise<Layer[]> {
  const path = typeof shipped === "string" ? shipped : fileURLToPath(shipped);
  const wanted = [{ folder: path, shown: basename(path) }];
  if (user !== undefined) wanted.push({ folder: user, shown: user });
  return Promise.all(wanted.map(({ folder, shown }) => readPriceFolder(folder, shown)));
}

interface Layer {
  readonly texts: readonly PriceText[];
  readonly faults: readonly Fault[];
}

/** Reads the files of one folder, ordered by name. Skips hidden files, such as the lock files of editors. */
export async function readPriceFolder(folder: string, shown: string): Promise<Layer> {
  const listed = await attempt(shown, () => readdir(folder));
  if (!listed.ok) return { texts: [], faults: [listed.fault] };
  const names = listed.value.filter((name) => /^[^.].*\.ya?ml$/.test(name)).sort();
  const read = await Promise.all(
    names.map(async (name) => {
      const shownName = join(shown, name);
      const result = await attempt(shownName, () => readFile(join(folder, name), "utf8"));
      return result.ok ? { text: { name: shownName, text: result.value } } : { fault: result.fault };
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
