import { spawnSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Makes `dist`, which the package and the image carry in the place of `src`: compiled modules, and beside them the files
 * that the modules read (migrations). Nothing in a checkout needs it.
 */
const pathOf = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));

rmSync(pathOf("dist"), { recursive: true, force: true });
const compiler = [pathOf("node_modules/typescript/bin/tsc"), "-p", pathOf("tsconfig.build.json")];
const compiled = spawnSync(process.execPath, compiler, { stdio: "inherit" });
if (compiled.status !== 0) process.exit(1);
cpSync(pathOf("src"), pathOf("dist"), { recursive: true, filter: (path) => !path.endsWith(".ts") });
