import { copyFile, cp, mkdir, readdir, readFile, rename } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { checkout, machineEnvironment, runWell } from "./run-program.ts";
import { withAncestors, type Stage } from "./dockerfile.ts";

/**
 * Returns the top-level names that .dockerignore lets into a build: it excludes everything and includes some names
 * again.
 */
export async function contextNames(): Promise<string[]> {
  const lines = (await readFile(join(checkout, ".dockerignore"), "utf8"))
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const [first, ...kept] = lines;
  if (first !== "*" || kept.some((line) => !/^![\w.-]+$/.test(line)))
    throw new Error(".dockerignore is no list of what is let in");
  return kept.map((line) => line.slice(1));
}

/**
 * Builds the image as Docker does, with one folder per stage as its `/`. Skips RUN of the last stage, which names paths
 * outside its working directory, and uses this Node instead of the base image's. Returns the last stage's folder.
 */
export async function buildImage(stages: readonly Stage[], folder: string): Promise<string> {
  const roots = new Map<string, string>();
  let root = "";
  for (const [index, stage] of stages.entries()) {
    root = join(folder, `stage-${index}`);
    await mkdir(root);
    if (stage.name !== null) roots.set(stage.name, root);
    await buildStage(stage, stages, root, { roots, isLast: index === stages.length - 1 });
  }
  await mkdir(join(root, "usr/local/bin"), { recursive: true });
  await copyFile(process.execPath, join(root, "usr/local/bin/node"));
  return root;
}

async function buildStage(
  stage: Stage,
  stages: readonly Stage[],
  root: string,
  { roots, isLast }: { readonly roots: ReadonlyMap<string, string>; readonly isLast: boolean },
): Promise<void> {
  let workdir = "/";
  const inRoot = (path: string) => join(root, resolve(workdir, path));
  for (const { keyword, flags, rest } of withAncestors(stage, stages)) {
    if (keyword === "WORKDIR") await mkdir(inRoot((workdir = resolve(workdir, rest))), { recursive: true });
    if (keyword === "RUN" && !isLast)
      await runWell("sh", ["-c", rest], { cwd: inRoot("."), env: machineEnvironment() });
    if (keyword !== "COPY") continue;
    const from = flags["from"] === undefined ? null : (roots.get(flags["from"]) ?? "");
    const words = rest.split(" ");
    const target = words.pop() ?? "";
    for (const word of words) {
      if (from === null && !(await contextNames()).includes(word)) throw new Error(`.dockerignore keeps ${word} out`);
      const place = target.endsWith("/") ? join(inRoot(target), basename(word)) : inRoot(target);
      // The output of a stage is used once and moved, because an install has too many files to copy.
      if (from === null) await cp(join(checkout, word), place, { recursive: true });
      else await rename(join(from, word), place);
    }
  }
}

/** Returns every file and folder below a folder. */
export async function filesBelow(root: string): Promise<string[]> {
  return (await readdir(root, { recursive: true })).toSorted();
}
