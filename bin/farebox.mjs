#!/usr/bin/env node
// Checks the Node version before anything else loads. Node 12 and newer must be able to parse this file.
import { existsSync } from "fs";
import module from "module";
import v8 from "v8";

const source = new URL("../src/main.ts", import.meta.url);
const compiled = new URL("../dist/main.js", import.meta.url);
/** True in a checkout, which runs the TypeScript source. The package and the image contain only the compiled program. */
const isCheckout = existsSync(source);

/**
 * Returns true if this Node satisfies `engines` in package.json: it has `crypto.randomUUIDv7`, which Node 25 never got.
 */
function isNewEnough() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  return (major === 24 && minor >= 16) || (major === 26 && minor >= 1) || major > 26;
}

if (isNewEnough()) {
  // Keep compiled code between runs, which halves the start time of a command.
  if (module.enableCompileCache) module.enableCompileCache();
  // Keep the young generation small until the proxy listens: see `stayLean`.
  if (process.argv[2] === "serve") v8.setFlagsFromString("--semi-space-growth-factor=1");
  import((isCheckout ? source : compiled).href);
} else {
  const advice = isCheckout ? "; in a checkout, run `npm run --silent farebox -- …`, which uses the right version" : "";
  process.stderr.write(
    `farebox needs Node 24.16 or a newer Node 24, or Node 26.1 or newer; this is Node ${process.versions.node}${advice}.\n`,
  );
  process.exitCode = 2;
}
