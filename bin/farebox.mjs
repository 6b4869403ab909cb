#!/usr/bin/env node
// Checks the Node version before anything else loads. This file itself must be understood by much older ones (12 on).
import { existsSync } from "fs";
import module from "module";

const oldestMajor = 24;

/** The program as TypeScript in a checkout, compiled in a package. */
function programAddress() {
  const candidates = ["../src/main.ts", "../dist/main.js", "../dist/src/main.js"].map((path) => new URL(path, import.meta.url));
  return candidates.find((address) => existsSync(address)) || candidates[1];
}

if (Number(process.versions.node.split(".")[0]) < oldestMajor) {
  process.stderr.write(
    `farebox needs Node ${oldestMajor} or newer, and this is Node ${process.versions.node}; in a checkout, \`npm run --silent farebox -- …\` brings the right one.\n`,
  );
  process.exitCode = 2;
} else {
  // Compiled code is kept between runs: a command starts in half the time.
  if (module.enableCompileCache) module.enableCompileCache();
  import(programAddress().href);
}
