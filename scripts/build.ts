import { spawnSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Makes `dist`, which the package and the image carry in the place of `src`: compiled modules, and beside them the files
 * that the modules read (migrations). Nothing in a checkout needs it.
 */
const pathOf = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));

rmSync(pathOf("dist"), { recursive: true, force: true });
// The dashboard is compiled by itself: it runs in a browser.
for (const project of [["tsconfig.build.json"], ["src/dashboard/tsconfig.json", "--noEmit", "false"]]) {
  const [file = "", ...more] = project;
  const compiled = spawnSync(
    process.execPath,
    [pathOf("node_modules/typescript/bin/tsc"), "-p", pathOf(file), ...more],
    { stdio: "inherit" },
  );
  if (compiled.status !== 0) process.exit(1);
}
cpSync(pathOf("src"), pathOf("dist"), {
  recursive: true,
  filter: (path) => !path.endsWith(".ts") && !path.endsWith("tsconfig.json"),
});
