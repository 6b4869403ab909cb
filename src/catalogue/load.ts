import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildCatalogue, type CatalogueBuilder, type CatalogueResult, type PriceText } from "./build.ts";
import type { Fault } from "../core/fault.ts";

/** Folders of price files: the shipped one, and the user's folder that overrides it. */
export interface PriceFolders {
  readonly shipped: URL | string;
  readonly user?: string | undefined;
}

export type PriceTexts =
  | { readonly ok: true; readonly layers: readonly (readonly PriceText[])[] }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/**
 * Loads the shipped price files, then the files of the user's folder (`*.yaml`, `*.yml`, by name), which override
 * them. Faults name shipped files by the last part of their folder's path, and the user's files by the folder as
 * given. A process that loads the same files repeatedly can pass a caching `build`.
 */
export async function loadCatalogue(
  folders: PriceFolders,
  build: CatalogueBuilder = buildCatalogue,
): Promise<CatalogueResult> {
  const layers = await readLayers(folders);
  const texts = layers.map((layer) => layer.texts);
  const unreadable = layers.flatMap(({ faults }) => faults);
  return unreadable.length === 0 ? build(texts) : buildCatalogue(texts, unreadable);
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

async function attempt<Value>(file: string, act: () => Promise<Value>): Promise<Attempt<Value>> {
  try {
    return { ok: true, value: await act() };
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
