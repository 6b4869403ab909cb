#!/usr/bin/env node
// Checks the Node version before anything else loads. This file itself must be understood by much older ones (12 on).
import { existsSync } from "fs";
import module from "module";

const source = new URL("../src/main.ts", import.meta.url);
const compiled = new URL("../dist/main.js", import.meta.url);
/** A checkout runs its TypeScript; a package and an image have the compiled program only. */
const isCheckout = existsSync(source);

/** As `engines` in package.json says: the first of 24 and of 26 that have `crypto.randomUUIDv7`; 25 never got it. */
function isNewEnough() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  return (major === 24 && minor >= 16) || (major === 26 && minor >= 1) || major > 26;
}

if (isNewEnough()) {
  // Compiled code is kept between runs: a command starts in half the time.
  if (module.enableCompileCache) module.enableCompileCache();
  import((isCheckout ? source : compiled).href);
} else {
  const advice = isCheckout ? "; in a checkout, `npm run --silent farebox -- …` brings the right one" : "";
  process.stderr.write(
    `farebox needs Node 24 from 24.16 on, or 26.1 or newer, and this is Node ${process.versions.node}${advice}.\n`,
  );
  process.exitCode = 2;
}
